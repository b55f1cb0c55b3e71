package chain_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/chain"
)

// FuzzCompile makes entries of any shape, sensible or not, and checks what holds for every chain.
func FuzzCompile(f *testing.F) {
	f.Add([]byte("default"))
	f.Add([]byte{1, 1, 2, 2, 2, 0, 1, 2, 3, 3, 2, 1, 0, 4, 4, 1, 0, 9, 9, 9, 1, 1, 7, 7})
	f.Fuzz(func(t *testing.T, data []byte) {
		ch := chooser(data)
		req := chain.Request{Service: ch.name(), Datacenter: ch.of("", "dc1", "dc2"), Overrides: chain.Overrides{
			Protocol:       ch.of("", "", "tcp", "http", "HTTP"),
			ConnectTimeout: time.Duration(ch.below(3)) - 1,
			MeshGateway:    chain.MeshGatewayMode(ch.of("", "local", "odd")),
		}}
		entries := chain.NewEntrySet(ch.entries()...)
		c, problems := chain.Compile(req, entries)
		if failed := len(errorsOf(problems)) > 0; failed != (c == nil) {
			t.Fatalf("a chain: %v, problems: %+v", c != nil, problems)
		}
		again, _ := chain.Compile(req, entries)
		if !reflect.DeepEqual(c, again) {
			t.Fatal("two compilations differ")
		}
		if c != nil {
			checkChain(t, c)
		}
	})
}

// entries makes entries until the data ends.
func (c *chooser) entries() []chain.Entry {
	var list []chain.Entry
	for len(*c) > 0 {
		e := chain.Normalize(c.entry())
		chain.Validate(e)
		list = append(list, e)
	}
	return list
}

// checkChain fails unless every reference resolves, and everything is referred to.
func checkChain(t *testing.T, c *chain.Chain) {
	t.Helper()
	reached, used := map[string]bool{}, map[string]bool{}
	var visit func(key string, belowSplitter bool)
	visit = func(key string, belowSplitter bool) {
		n := c.Nodes[key]
		switch {
		case n == nil || key != n.Type+":"+n.Name:
			t.Fatalf("%s: there is no such node, or it has another name", key)
		case belowSplitter && n.Type != chain.NodeResolver:
			t.Fatalf("%s: a splitter leads to it", key)
		}
		reached[key] = true
		for _, r := range n.Routes {
			visit(r.NextNode, false)
		}
		for _, s := range n.Splits {
			visit(s.NextNode, true)
		}
		if n.Resolver != nil {
			used[n.Resolver.Target] = true
			if n.Resolver.Failover != nil {
				for _, id := range n.Resolver.Failover.Targets {
					used[id] = true
				}
			}
		}
	}
	visit(c.StartNode, false)
	for id := range used {
		if target := c.Targets[id]; target == nil || target.ID != id || target.ConnectTimeout <= 0 {
			t.Fatalf("%s: target %+v", id, target)
		}
	}
	if len(reached) != len(c.Nodes) || len(used) != len(c.Targets) {
		t.Fatalf("%d of %d nodes are reached, %d of %d targets are used", len(reached), len(c.Nodes), len(used), len(c.Targets))
	}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var back chain.Chain
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if second, _ := json.Marshal(back); string(second) != string(text) {
		t.Fatalf("read back\n%s\nprinted\n%s", second, text)
	}
}

// chooser turns fuzz data into choices; at its end every choice is the first.
type chooser []byte

func (c *chooser) below(n int) int {
	if len(*c) == 0 {
		return 0
	}
	b := (*c)[0]
	*c = (*c)[1:]
	return int(b) % n
}

func (c *chooser) of(values ...string) string { return values[c.below(len(values))] }
func (c *chooser) maybe() bool                { return c.below(2) == 1 }
func (c *chooser) name() string               { return c.of("a", "b", "c", "d", "A", "") }
func (c *chooser) subset() string             { return c.of("", "", "v1", "v2") }
func (c *chooser) datacenter() string         { return c.of("", "", "dc1", "dc2") }
func (c *chooser) peer() string               { return c.of("", "", "", "east") }

func (c *chooser) entry() chain.Entry {
	switch c.below(8) {
	case 1:
		return &chain.ProxyDefaults{
			Header: chain.Header{Name: chain.GlobalName}, Config: map[string]any{"protocol": c.of("http", "grpc", "")},
			MeshGateway:    chain.MeshGateway{Mode: chain.MeshGatewayMode(c.of("", "remote"))},
			FailoverPolicy: &chain.FailoverPolicy{Mode: c.of("", "sequential")},
		}
	case 2:
		return &chain.ServiceDefaults{
			Header: chain.Header{Name: c.name()}, Protocol: c.of("http", "", "tcp"), ExternalSNI: c.of("", "", "x"),
		}
	case 3:
		return c.router()
	case 4, 5:
		return c.splitter()
	}
	return c.resolver()
}

func (c *chooser) router() chain.Entry {
	e := &chain.ServiceRouter{Header: chain.Header{Name: c.name()}}
	for range c.below(4) {
		r := chain.ServiceRoute{}
		if c.maybe() {
			r.Destination = &chain.RouteDestination{
				Service: c.name(), ServiceSubset: c.subset(), Partition: c.of("", "", "p1"),
				RequestTimeout: time.Duration(c.below(3)) * time.Second,
			}
		}
		if c.maybe() {
			r.Match = &chain.RouteMatch{HTTP: &chain.HTTPMatch{PathRegex: c.of("", "(", "/a"), Methods: []string{c.of("get", "GET", "")}}}
		}
		e.Routes = append(e.Routes, r)
	}
	return e
}

func (c *chooser) splitter() chain.Entry {
	e := &chain.ServiceSplitter{Header: chain.Header{Name: c.name()}}
	for range c.below(4) {
		e.Splits = append(e.Splits, chain.ServiceSplit{
			Weight: float32(c.below(201)) - 50, Service: c.name(), ServiceSubset: c.subset(),
			RequestHeaders: c.modifiers(), ResponseHeaders: c.modifiers(),
		})
	}
	return e
}

func (c *chooser) modifiers() *chain.HeaderModifiers {
	if c.maybe() {
		return nil
	}
	m := &chain.HeaderModifiers{}
	if c.maybe() {
		m.Add = map[string]string{c.of("x", "y"): "1"}
	}
	if c.maybe() {
		m.Remove = []string{c.of("x", "y"), c.of("x", "z")}
	}
	return m
}

func (c *chooser) resolver() chain.Entry {
	e := &chain.ServiceResolver{
		Header: chain.Header{Name: c.name()}, DefaultSubset: c.subset(), ConnectTimeout: time.Duration(c.below(3) - 1),
	}
	if c.maybe() {
		e.Subsets = map[string]chain.Subset{"v1": {}, "v2": {OnlyPassing: true}}
	}
	if c.maybe() {
		e.Redirect = &chain.Redirect{Service: c.name(), ServiceSubset: c.subset(), Datacenter: c.datacenter(), Peer: c.peer()}
	}
	if c.maybe() {
		f := chain.Failover{Service: c.name(), ServiceSubset: c.subset(), SamenessGroup: c.of("", "", "", "s")}
		for range c.below(3) {
			f.Datacenters = append(f.Datacenters, c.datacenter())
		}
		for range c.below(3) {
			f.Targets = append(f.Targets, chain.FailoverTarget{
				Service: c.name(), ServiceSubset: c.subset(), Datacenter: c.datacenter(), Peer: c.peer(),
			})
		}
		e.Failover = map[string]chain.Failover{c.of("*", "v1", ""): f}
	}
	if c.maybe() {
		e.LoadBalancer = &chain.LoadBalancer{Policy: c.of("", "maglev", "odd"), HashPolicies: []chain.HashPolicy{{}}}
	}
	return e
}
