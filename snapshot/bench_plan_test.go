package snapshot_test

import (
	"fmt"
	"testing"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/snapshot"
)

// benchServices is how many services there are, each with five instances.
const benchServices = 200

// town is a store with services that all speak HTTP, and a cache.
func town(b *testing.B) (*facts.Store, *snapshot.Cache) {
	b.Helper()
	store := facts.New()
	store.Commit(func(tx *facts.Tx) {
		var names []string
		for i := range benchServices {
			names = append(names, serviceName(i))
		}
		tx.Services("dc1", names, confirmed)
		tx.Entries(chain.KindProxyDefaults, []chain.Entry{&chain.ProxyDefaults{
			Header: chain.Header{Name: "global"}, Config: map[string]any{"protocol": "http"},
		}}, confirmed)
		for i := range benchServices {
			tx.Instances(facts.Health("dc1", serviceName(i)), instancesOf(i, facts.StatusPassing, 0), confirmed)
		}
		tx.CloseWorld()
	})
	return store, snapshot.NewCache(snapshot.Config{Datacenter: "dc1", TrustDomain: "catenary.local"})
}

func serviceName(i int) string { return fmt.Sprintf("service-%03d", i) }

// instancesOf is the instances of a service; the status is that of the first, at an index.
func instancesOf(i int, status facts.CheckStatus, index uint64) []*facts.Instance {
	var list []*facts.Instance
	for n := range 5 {
		in := instance(serviceName(i), fmt.Sprintf("%s-%d", serviceName(i), n), 8000+n, facts.StatusPassing)
		if n == 0 {
			in.Checks[0].Status, in.Checks[0].ModifyIndex = status, index
		}
		list = append(list, in)
	}
	return list
}

// upstreamsFrom are the names of n services, beginning with one of them.
func upstreamsFrom(first, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = serviceName((first + i) % benchServices)
	}
	return names
}

// BenchmarkPlan is a client that comes and goes: the first to have its upstreams, or with others that have
// the same or some of them.
func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{10, 200} {
		for _, others := range []string{"new", "shared", "overlapping"} {
			b.Run(fmt.Sprintf("%s/%d", others, n), func(b *testing.B) {
				store, cache := town(b)
				view := store.View()
				switch others {
				case "shared":
					cache.Put("other", client("other", upstreamsFrom(0, n)...), view)
				case "overlapping":
					for i := range benchServices / 10 {
						cache.Put(fmt.Sprint(i), client("other", upstreamsFrom(10*i, 10)...), view)
					}
				}
				c := client("web", upstreamsFrom(5, n)...)
				if others == "shared" {
					c = client("web", upstreamsFrom(0, n)...)
				}
				b.ReportAllocs()
				for b.Loop() {
					if d := cache.Put("web", c, view); !d.Plans["web"].Complete() {
						b.Fatalf("%+v", d.Plans["web"])
					}
					cache.Drop("web")
				}
			})
		}
	}
}

// BenchmarkAdvance is one change of health, from the fact to what came out different, with clients of ten
// upstreams each of which some have the service.
func BenchmarkAdvance(b *testing.B) {
	for _, clients := range []int{1, 300} {
		b.Run(fmt.Sprint(clients), func(b *testing.B) {
			store, cache := town(b)
			for i := range clients {
				cache.Put(fmt.Sprint(i), client("web", upstreamsFrom(7*i, 10)...), store.View())
			}
			sub := store.Subscribe()
			defer sub.Close()
			topic, index := facts.Health("dc1", serviceName(3)), uint64(0)
			b.ReportAllocs()
			for b.Loop() {
				index++
				in := instancesOf(3, []facts.CheckStatus{facts.StatusPassing, facts.StatusCritical}[index%2], index)[0]
				store.Commit(func(tx *facts.Tx) { tx.PutInstance(topic, in) })
				if d := cache.Update(sub.Drain()); len(d.Products) != 1 || len(d.Plans) > 0 {
					b.Fatalf("%d products and %d plans changed", len(d.Products), len(d.Plans))
				}
			}
		})
	}
}

// BenchmarkSplit is a change of a splitter: its chain, and the routes made of it, once for all clients.
func BenchmarkSplit(b *testing.B) {
	store, cache := town(b)
	for i := range 300 {
		cache.Put(fmt.Sprint(i), client("web", upstreamsFrom(7*i, 10)...), store.View())
	}
	sub := store.Subscribe()
	defer sub.Close()
	split := func(w float32) {
		store.Commit(func(tx *facts.Tx) {
			tx.Entries(chain.KindServiceSplitter, []chain.Entry{&chain.ServiceSplitter{
				Header: chain.Header{Name: serviceName(3)},
				Splits: []chain.ServiceSplit{{Weight: w}, {Weight: 100 - w, Service: serviceName(4)}},
			}}, confirmed)
		})
	}
	split(50)
	cache.Update(sub.Drain())
	w := float32(0)
	b.ReportAllocs()
	for b.Loop() {
		w = 11 - w
		split(40 + w)
		if d := cache.Update(sub.Drain()); len(d.Products) != 1 || len(d.Plans) > 0 {
			b.Fatalf("%d products and %d plans changed", len(d.Products), len(d.Plans))
		}
	}
}
