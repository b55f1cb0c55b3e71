package chain_test

import (
	"fmt"
	"testing"

	"github.com/catenary-mesh/catenary/chain"
)

func BenchmarkCompileDefault(b *testing.B) {
	benchmark(b, &chain.EntrySet{})
}

// BenchmarkCompileRoutes has ten routes to services with a splitter of three legs each, two of them to
// subsets, and failover to two datacenters.
func BenchmarkCompileRoutes(b *testing.B) {
	entries := chain.NewEntrySet(http())
	router := &chain.ServiceRouter{Header: head("web")}
	for i := range 10 {
		name := fmt.Sprintf("service-%d", i)
		router.Routes = append(router.Routes, chain.ServiceRoute{
			Match:       &chain.RouteMatch{HTTP: &chain.HTTPMatch{PathPrefix: "/" + name}},
			Destination: &chain.RouteDestination{Service: name},
		})
		entries.Put(&chain.ServiceSplitter{Header: head(name), Splits: []chain.ServiceSplit{
			{Weight: 90, ServiceSubset: "v1"}, {Weight: 9, ServiceSubset: "v2"}, {Weight: 1, Service: "shared"},
		}})
		entries.Put(&chain.ServiceResolver{
			Header:   head(name),
			Subsets:  map[string]chain.Subset{"v1": {Filter: "Service.Meta.v == 1"}, "v2": {Filter: "Service.Meta.v == 2"}},
			Failover: map[string]chain.Failover{"*": {Datacenters: []string{"dc2", "dc3"}}},
		})
	}
	entries.Put(router)
	benchmark(b, entries)
}

func benchmark(b *testing.B, entries *chain.EntrySet) {
	req := chain.Request{Service: "web", Datacenter: "dc1", TrustDomain: "11111111-2222-3333-4444-555555555555.consul"}
	b.ReportAllocs()
	for b.Loop() {
		if c, problems := chain.Compile(req, entries); c == nil {
			b.Fatal(problems)
		}
	}
}
