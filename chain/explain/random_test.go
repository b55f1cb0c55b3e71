package explain_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/chain/explain"
)

// TestRandomChainsAreExplained explains chains of random entries of few names, so that they collide in
// every way: nothing is left out, and nothing panics.
func TestRandomChainsAreExplained(t *testing.T) {
	const rounds = 3000
	explained := 0
	for seed := range uint64(rounds) {
		r := &random{rand.New(rand.NewPCG(seed, 0))}
		entries := r.entries()
		for _, service := range []string{"a", "b", "C"} {
			req := chain.Request{Service: service, Datacenter: "dc1", Overrides: r.overrides()}
			c, _ := chain.Compile(req, entries)
			if c == nil {
				continue
			}
			explained++
			checkComplete(t, c, explain.Explain(req, c, entries))
			if t.Failed() {
				t.Fatalf("seed %d, %s", seed, service)
			}
		}
	}
	if explained < rounds {
		t.Errorf("only %d chains compiled", explained)
	}
}

type random struct{ *rand.Rand }

func (r *random) of(list ...string) string { return list[r.IntN(len(list))] }
func (r *random) often() bool              { return r.IntN(3) > 0 }
func (r *random) service() string          { return r.of("", "a", "b", "c", "A") }
func (r *random) subset() string           { return r.of("", "", "v1", "v2") }

func (r *random) overrides() chain.Overrides {
	if r.often() {
		return chain.Overrides{}
	}
	return chain.Overrides{
		Protocol: r.of("", "http", "tcp"), ConnectTimeout: time.Duration(r.IntN(3)) * time.Second,
		MeshGateway: chain.MeshGatewayMode(r.of("", "local")),
	}
}

func (r *random) entries() *chain.EntrySet {
	set := chain.NewEntrySet(&chain.ProxyDefaults{
		Header: chain.Header{Name: "global"}, Config: map[string]any{"protocol": "http"},
		MeshGateway: chain.MeshGateway{Mode: chain.MeshGatewayMode(r.of("", "remote"))},
	})
	for _, name := range []string{"a", "b", "c"} {
		head := chain.Header{Name: name}
		if r.often() {
			set.Put(r.resolver(head))
		}
		if r.often() {
			s := &chain.ServiceSplitter{Header: head}
			for range 2 {
				s.Splits = append(s.Splits, chain.ServiceSplit{Weight: 50, Service: r.service(), ServiceSubset: r.subset()})
			}
			set.Put(s)
		}
		if r.often() {
			s := &chain.ServiceRouter{Header: head}
			for range r.IntN(3) {
				s.Routes = append(s.Routes, chain.ServiceRoute{
					Destination: &chain.RouteDestination{Service: r.service(), ServiceSubset: r.subset(), Namespace: r.of("", "", "n")},
				})
			}
			set.Put(s)
		}
	}
	return set
}

func (r *random) resolver(head chain.Header) *chain.ServiceResolver {
	out := &chain.ServiceResolver{Header: head, Subsets: map[string]chain.Subset{"v1": {Filter: "x"}, "v2": {}}}
	out.DefaultSubset = r.subset()
	out.ConnectTimeout = time.Duration(r.IntN(3)) * time.Second
	peer := r.of("", "", "p")
	if r.IntN(3) == 0 {
		out.Redirect = &chain.Redirect{Service: r.service(), Datacenter: r.of("", "dc2"), Peer: peer}
		if peer == "" && out.Redirect.Service != "" {
			out.Redirect.ServiceSubset = r.subset()
		}
		return out
	}
	if r.often() {
		out.Failover = map[string]chain.Failover{r.of("*", "v1"): r.failover()}
	}
	return out
}

func (r *random) failover() chain.Failover {
	f := chain.Failover{Service: r.service(), ServiceSubset: r.subset()}
	switch r.IntN(3) {
	case 0:
		f.Datacenters = []string{"dc1", fmt.Sprintf("dc%d", r.IntN(3))}
	case 1:
		f = chain.Failover{Targets: []chain.FailoverTarget{
			{Service: r.service(), Peer: r.of("", "p")}, {Service: r.service(), ServiceSubset: r.subset(), Datacenter: r.of("", "dc2")},
		}}
	}
	return f
}
