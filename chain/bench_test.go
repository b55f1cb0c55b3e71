package chain_test

import (
	"fmt"
	"testing"

	"github.com/catenary-mesh/catenary/chain"
)

// shape is a chain of the size of one that Consul's own compiler was measured with.
type shape struct {
	name           string
	entries        *chain.EntrySet
	nodes, targets int
	// allocs is the most allocations that one compilation may make: half of Consul's or less.
	allocs float64
}

// shapes are a chain without entries, a plain one and a large one. Consul 1.22.5 took 29, 426 and 6,013
// allocations for chains of these sizes; and 2.0 to 2.7 µs, 34 to 42 µs and 0.64 to 0.74 ms.
func shapes() []shape {
	return []shape{
		{"default", &chain.EntrySet{}, 1, 1, 12},
		{"10-routes", routes(10, []string{"web", "api"}, "v1", "v2", "v3"), 9, 18, 200},
		{"100-routes", nestedRoutes(100, 20), 122, 301, 3000},
	}
}

// routes is a router whose routes lead to the services in turn. Each has a splitter with a leg to each
// of its subsets, and two datacenters to fail over to.
func routes(n int, services []string, subsets ...string) *chain.EntrySet {
	set := chain.NewEntrySet(http())
	router := &chain.ServiceRouter{Header: head("web")}
	for i := range n {
		router.Routes = append(router.Routes, chain.ServiceRoute{
			Match:       &chain.RouteMatch{HTTP: &chain.HTTPMatch{PathPrefix: fmt.Sprintf("/%d", i)}},
			Destination: &chain.RouteDestination{Service: services[i%len(services)]},
		})
	}
	set.Put(router)
	for _, name := range services {
		splitter := &chain.ServiceSplitter{Header: head(name)}
		resolver := &chain.ServiceResolver{
			Header:   head(name),
			Subsets:  map[string]chain.Subset{},
			Failover: map[string]chain.Failover{"*": {Datacenters: []string{"dc2", "dc3"}}},
		}
		for i, subset := range subsets {
			splitter.Splits = append(splitter.Splits, chain.ServiceSplit{Weight: float32(i), ServiceSubset: subset})
			resolver.Subsets[subset] = chain.Subset{Filter: "Service.Meta.version == " + subset}
		}
		set.Put(splitter)
		set.Put(resolver)
	}
	return set
}

// nestedRoutes is like routes, with a splitter below each of the splitters.
func nestedRoutes(n, services int) *chain.EntrySet {
	var names []string
	for i := range services {
		names = append(names, fmt.Sprintf("service-%d", i))
	}
	set := routes(n, names, "v1", "v2", "v3")
	for _, name := range names {
		inner := routes(0, []string{name + "-inner"}, "v1", "v2")
		for _, kind := range []chain.Kind{chain.KindServiceSplitter, chain.KindServiceResolver} {
			set.Put(inner.Entry(kind, name+"-inner"))
		}
		outer := set.Entry(chain.KindServiceSplitter, name).(*chain.ServiceSplitter)
		outer.Splits = append(outer.Splits, chain.ServiceSplit{Weight: 50, Service: name + "-inner"})
	}
	return set
}

var benchRequest = chain.Request{
	Service: "web", Datacenter: "dc1", TrustDomain: "11111111-2222-3333-4444-555555555555.consul",
}

func TestCompileAllocatesLittle(t *testing.T) {
	for _, s := range shapes() {
		c, problems := chain.Compile(benchRequest, s.entries)
		if c == nil || len(c.Nodes) != s.nodes || len(c.Targets) != s.targets {
			t.Fatalf("%s: a chain of another size than Consul was measured with: %+v", s.name, problems)
		}
		allocs := testing.AllocsPerRun(10, func() { chain.Compile(benchRequest, s.entries) })
		if allocs > s.allocs {
			t.Errorf("%s: %v allocations, want at most %v", s.name, allocs, s.allocs)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	for _, s := range shapes() {
		b.Run(s.name, func(b *testing.B) { benchmark(b, "web", s.entries) })
	}
}

func benchmark(b *testing.B, service string, entries chain.Entries) {
	req := benchRequest
	req.Service = service
	b.ReportAllocs()
	for b.Loop() {
		chain.Compile(req, entries)
	}
}
