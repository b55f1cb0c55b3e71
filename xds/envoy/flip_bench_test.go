package envoy

import (
	"fmt"
	"slices"
	"testing"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/snapshot"
)

// registered is n instances of api, in another order by name than by address.
func registered(n int) []*facts.Instance {
	list := make([]*facts.Instance, n)
	for i := range list {
		at := i * 7919 % 65536
		node, id := fmt.Sprintf("node-%05d", i), fmt.Sprintf("api-%05d", i)
		list[i] = &facts.Instance{
			Node: facts.Node{Node: node, Address: fmt.Sprintf("10.0.%d.%d", at>>8, at&255), Datacenter: "dc1"},
			Service: facts.Service{
				ID: id, Service: "api", Port: 8080, Weights: facts.Weights{Passing: 1 + i%3, Warning: 1},
				Meta:     map[string]string{"version": fmt.Sprintf("v%d", i%2+1)},
				Locality: &facts.Locality{Region: "eu-west-1", Zone: fmt.Sprintf("eu-west-1%c", 'a'+i%3)},
			},
			Checks: []facts.Check{{CheckID: "serfHealth", Status: facts.StatusPassing}, {CheckID: "service:" + id, Status: facts.StatusPassing}},
		}
	}
	return list
}

// served is a store and the products of a client with the upstream api, of which a resolver makes
// subsets where there are any.
func served(b *testing.B, n int, subsets map[string]chain.Subset) (*facts.Store, *snapshot.Cache) {
	b.Helper()
	store := facts.New()
	store.Commit(func(tx *facts.Tx) {
		confirmed := facts.Reading{Confirmed: true}
		if len(subsets) > 0 {
			tx.Entries(chain.KindServiceResolver, []chain.Entry{&chain.ServiceResolver{
				Header: chain.Header{Name: "api"}, DefaultSubset: "v1", Subsets: subsets,
			}}, confirmed)
		}
		tx.Services("dc1", []string{"api"}, confirmed)
		tx.Instances(facts.Health("dc1", "api"), registered(n), confirmed)
		tx.CloseWorld()
	})
	cache := snapshot.NewCache(snapshot.Config{Datacenter: "dc1", TrustDomain: "catenary.local"})
	d := cache.Put("web", snapshot.Client{
		ID: "web", Service: "web", Declared: true,
		Upstreams: []snapshot.Upstream{{Service: "api", BindAddress: "127.0.0.1", BindPort: 9191}},
	}, store.View())
	if !d.Plans["web"].Complete() {
		b.Fatalf("%+v", d.Plans["web"])
	}
	return store, cache
}

// BenchmarkFlip is one instance's change of health: from the fact to the bytes of the endpoint set.
func BenchmarkFlip(b *testing.B) {
	for name, subsets := range map[string]map[string]chain.Subset{
		"plain":  nil,
		"subset": {"v1": {Filter: `Service.Meta.version == "v1"`}},
	} {
		for _, n := range []int{5, 100, 10_000} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				store, cache := served(b, n, subsets)
				sub := store.Subscribe()
				defer sub.Close()
				in := *registered(n)[n/2&^1] // of the subset
				index := uint64(0)
				b.ReportAllocs()
				for b.Loop() {
					index++
					next := in
					next.Checks = slices.Clone(in.Checks)
					next.Checks[1].ModifyIndex = index
					if index%2 == 1 {
						next.Checks[1].Status = facts.StatusCritical
					}
					store.Commit(func(tx *facts.Tx) { tx.PutInstance(facts.Health("dc1", "api"), &next) })
					d := cache.Update(sub.Drain())
					if len(d.Products) != 1 {
						b.Fatalf("%d products changed", len(d.Products))
					}
					for key, product := range d.Products {
						if _, err := Resource(snapshot.Ref{Name: "api.default.dc1.internal", Key: key}, product); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
	}
}
