package chain_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"weak"

	"github.com/catenary-mesh/catenary/chain"
)

// counter counts look-ups.
type counter struct {
	chain.Entries
	asked int
}

func (c *counter) Entry(kind chain.Kind, name string) chain.Entry {
	c.asked++
	return c.Entries.Entry(kind, name)
}

// crowded adds two entries for each of 10,000 services that have nothing to do with the chain.
func crowded(set *chain.EntrySet) *chain.EntrySet {
	for i := range 10_000 {
		name := fmt.Sprintf("other-%d", i)
		set.Put(&chain.ServiceDefaults{Header: head(name), Protocol: "http"})
		set.Put(&chain.ServiceResolver{Header: head(name), Redirect: &chain.Redirect{Service: "other-0"}})
	}
	return set
}

func TestCompileCostsTheSameInALargeStore(t *testing.T) {
	small, large := shapes(), shapes()
	for i := range small {
		cost := func(s *chain.EntrySet) (lookups int, allocs float64) {
			c := &counter{Entries: s}
			chain.Compile(benchRequest, c)
			return c.asked, testing.AllocsPerRun(5, func() { chain.Compile(benchRequest, s) })
		}
		lookups, allocs := cost(small[i].entries)
		crowdedLookups, crowdedAllocs := cost(crowded(large[i].entries))
		if lookups != crowdedLookups || allocs != crowdedAllocs {
			t.Errorf("%s: %d look-ups and %v allocations, among 20,000 entries %d and %v",
				small[i].name, lookups, allocs, crowdedLookups, crowdedAllocs)
		}
	}
}

func TestCompileLooksUpEachEntryOnce(t *testing.T) {
	for _, s := range shapes() {
		r := &recorder{Entries: s.entries}
		chain.Compile(benchRequest, r)
		seen := map[string]bool{}
		for _, asked := range r.seen {
			if seen[asked] {
				t.Errorf("%s: %s is looked up again", s.name, asked)
			}
			seen[asked] = true
		}
	}
}

// explosion is a small set of entries whose chain would be huge.
type explosion struct {
	name    string
	entries *chain.EntrySet
	refused string
}

func explosions() []explosion {
	return []explosion{
		{"2^60 legs", tower(60, 2), "100000 splits"},
		{"100^3 legs", tower(3, 100), "100000 splits"},
		{"nodes", tower(chain.MaxNodes+1, 1), "10000 nodes"},
		{"nodes of a router", wideRouter(chain.MaxNodes, &chain.ServiceResolver{}), "10000 nodes"},
		{"redirects", redirects(chain.MaxRedirects + 1), "1000 redirects"},
		{"failover of each subset", wideRouter(9000, &chain.ServiceResolver{
			Failover: map[string]chain.Failover{"*": {Datacenters: numbered("dc", 1000)}},
		}), "50000 targets"},
		{"failover to one place", wideRouter(9000, &chain.ServiceResolver{
			Failover: map[string]chain.Failover{"*": {Targets: make([]chain.FailoverTarget, 10_000)}},
		}), "50000 targets"},
		{"redirects of each failover", failoverAndRedirects(1000, 900), "50000 targets"},
		{"headers", headers(1000, 1100), "1000000 header modifiers"},
	}
}

// tower is a stack of splitters, each with legs to the next one only.
func tower(height, legs int) *chain.EntrySet {
	set := chain.NewEntrySet(http())
	for i := range height {
		s := &chain.ServiceSplitter{Header: head(fmt.Sprintf("s%d", i))}
		for range legs {
			s.Splits = append(s.Splits, chain.ServiceSplit{Weight: 100 / float32(legs), Service: fmt.Sprintf("s%d", i+1)})
		}
		set.Put(s)
	}
	return set
}

// wideRouter has a route to each of n subsets of one service, whose resolver is given without them.
func wideRouter(n int, resolver *chain.ServiceResolver) *chain.EntrySet {
	router := &chain.ServiceRouter{Header: head("s0")}
	resolver.Header, resolver.Subsets = head("s0"), map[string]chain.Subset{}
	for _, subset := range numbered("v", n) {
		router.Routes = append(router.Routes, chain.ServiceRoute{Destination: &chain.RouteDestination{ServiceSubset: subset}})
		resolver.Subsets[subset] = chain.Subset{}
	}
	return chain.NewEntrySet(http(), router, resolver)
}

// redirects is n of them in a row.
func redirects(n int) *chain.EntrySet {
	set := chain.NewEntrySet(http())
	for i := range n {
		set.Put(&chain.ServiceResolver{Header: head(fmt.Sprintf("s%d", i)), Redirect: &chain.Redirect{Service: fmt.Sprintf("s%d", i+1)}})
	}
	return set
}

// failoverAndRedirects fails over to datacenters in which a service is redirected again and again.
func failoverAndRedirects(datacenters, hops int) *chain.EntrySet {
	set := redirects(hops)
	set.Put(&chain.ServiceResolver{Header: head("s0"), Failover: map[string]chain.Failover{
		"*": {Service: "s1", Datacenters: numbered("dc", datacenters)},
	}})
	return set
}

// headers is a leg with n modifiers to a splitter with legs that have one.
func headers(n, legs int) *chain.EntrySet {
	outer := &chain.ServiceSplitter{Header: head("s0"), Splits: []chain.ServiceSplit{{
		Weight: 100, Service: "s1", RequestHeaders: &chain.HeaderModifiers{Remove: numbered("x", n)},
	}}}
	inner := &chain.ServiceSplitter{Header: head("s1")}
	for range legs {
		inner.Splits = append(inner.Splits, chain.ServiceSplit{RequestHeaders: &chain.HeaderModifiers{Remove: []string{"y"}}})
	}
	return chain.NewEntrySet(http(), outer, inner)
}

func numbered(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s%d", prefix, i)
	}
	return out
}

// TestCompileRefusesExplosions counts look-ups and allocations, which follow the time: 50 ms is what
// Consul's users may wait for a refusal, and BenchmarkCompileRefusal tells how long it takes.
func TestCompileRefusesExplosions(t *testing.T) {
	const maxLookups, maxAllocs = 3*chain.MaxNodes + 10, 2 * chain.MaxTargets
	for _, e := range explosions() {
		entries := &counter{Entries: e.entries}
		c, problems := chain.Compile(chain.Request{Service: "s0"}, entries)
		if c != nil || len(problems) != 1 || problems[0].Code != chain.CodeTooLarge || !strings.Contains(problems[0].Message, e.refused) {
			t.Errorf("%s: got %v %+v, want a problem with %s", e.name, c != nil, problems, e.refused)
		}
		allocs := testing.AllocsPerRun(1, func() { chain.Compile(chain.Request{Service: "s0"}, e.entries) })
		if entries.asked > maxLookups || allocs > maxAllocs {
			t.Errorf("%s: %d look-ups and %v allocations, want at most %d and %d", e.name, entries.asked, allocs, maxLookups, maxAllocs)
		}
	}
}

func BenchmarkCompileRefusal(b *testing.B) {
	for _, e := range explosions() {
		b.Run(strings.ReplaceAll(e.name, " ", "-"), func(b *testing.B) { benchmark(b, "s0", e.entries) })
	}
}

func BenchmarkCompileInALargeStore(b *testing.B) {
	for _, s := range shapes() {
		b.Run(s.name, func(b *testing.B) { benchmark(b, "web", crowded(s.entries)) })
	}
}

// TestRedirectsAreCountedAlongTheWholeWay has a route to the middle of a row of redirects before one to
// its beginning.
func TestRedirectsAreCountedAlongTheWholeWay(t *testing.T) {
	for hops, compiles := range map[int]bool{chain.MaxRedirects: true, chain.MaxRedirects + 1: false} {
		entries := redirects(hops)
		entries.Put(&chain.ServiceRouter{Header: head("s0"), Routes: []chain.ServiceRoute{
			{Destination: &chain.RouteDestination{Service: "s500"}}, {Destination: &chain.RouteDestination{Service: "s200"}},
		}})
		c, problems := chain.Compile(chain.Request{Service: "s0"}, entries)
		if (c != nil) != compiles || (c != nil && len(c.Nodes) != 2) {
			t.Errorf("%d redirects: got a chain: %v, %+v", hops, c != nil, problems)
		}
	}
}

func TestCompileMergesHighTowers(t *testing.T) {
	c, problems := chain.Compile(chain.Request{Service: "s0"}, tower(2000, 1))
	if c == nil || len(c.Nodes) != 2 {
		t.Fatalf("got %+v", problems)
	}
	if s := c.Nodes[c.StartNode].Splits; len(s) != 1 || s[0].Weight != 100 || s[0].NextNode != "resolver:s2000.default.default.dc1" {
		t.Errorf("got %+v", s)
	}
}

// TestChainsKeepNoEntries guards what a chain that is held for long would cost: a whole store's snapshot.
func TestChainsKeepNoEntries(t *testing.T) {
	for _, s := range shapes() {
		entries := &counter{Entries: s.entries}
		held := weak.Make(entries)
		c, _ := chain.Compile(benchRequest, entries)
		entries = nil
		runtime.GC()
		if held.Value() != nil {
			t.Errorf("%s: the chain keeps the entries it was compiled from", s.name)
		}
		runtime.KeepAlive(c)
	}
}
