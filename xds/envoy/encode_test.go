package envoy

import (
	"bytes"
	"maps"
	"testing"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/snapshot"
	"github.com/catenary-mesh/catenary/xds/session"
)

// products is one of each kind, made anew: no two calls share a map or a slice.
func products() map[string]struct {
	ref     snapshot.Ref
	product any
} {
	headers := map[string]string{}
	for _, name := range []string{"x-a", "x-b", "x-c", "x-d", "x-e", "x-f"} {
		headers[name] = "1"
	}
	compiled := &chain.Chain{
		StartNode: "router:api",
		Nodes: map[string]*chain.Node{
			"router:api": {Type: chain.NodeRouter, Routes: []*chain.Route{{
				NextNode: "resolver:api",
				Definition: &chain.ServiceRoute{Destination: &chain.RouteDestination{
					RequestHeaders:  &chain.HeaderModifiers{Add: headers, Set: maps.Clone(headers)},
					ResponseHeaders: &chain.HeaderModifiers{Add: maps.Clone(headers)},
				}},
			}}},
			"resolver:api": {Type: chain.NodeResolver, Resolver: &chain.Resolver{Target: "api"}},
		},
		Targets: map[string]*chain.Target{"api": {ID: "api", Name: "api"}},
	}
	routes := snapshot.RoutesKey{Name: "api", Chain: snapshot.ChainKey{Service: "api"}}
	http := snapshot.ListenerKey{EnvoyID: "api", Bind: snapshot.Bind{Address: "127.0.0.1", Port: 9191}, Protocol: "grpc"}
	tcp := snapshot.ListenerKey{
		EnvoyID: "db", Bind: snapshot.Bind{Address: "127.0.0.1", Port: 5432}, Protocol: "tcp", Chain: snapshot.ChainKey{Service: "db"},
	}
	direct := &chain.Chain{StartNode: "resolver:api", Nodes: compiled.Nodes, Targets: compiled.Targets}
	cluster := snapshot.ClusterKey{Name: "api", Protocol: "grpc", Transport: snapshot.Plaintext{}, Limits: snapshot.Limits{MaxConnections: set(7)}}
	aggregate := snapshot.NewAggregateKey("all", 0, []string{"a", "b"})
	type made = struct {
		ref     snapshot.Ref
		product any
	}
	return map[string]made{
		"routes":        {snapshot.Ref{Name: "api", Key: routes}, snapshot.Routes{Key: routes, Chain: compiled}},
		"refusal":       {snapshot.Ref{Name: "api", Key: routes}, snapshot.Routes{Key: routes, Problem: "broken"}},
		"http listener": {snapshot.Ref{Name: "api", Key: http}, http},
		"tcp listener":  {snapshot.Ref{Name: "db", Key: tcp}, snapshot.Routes{Key: tcp, Chain: direct}},
		"cluster":       {snapshot.Ref{Name: "api", Key: cluster}, cluster},
		"aggregate":     {snapshot.Ref{Name: "all", Key: aggregate}, aggregate},
		"endpoints": {
			snapshot.Ref{Name: "api", Key: snapshot.EndpointSetKey{}},
			snapshot.EndpointSet{Endpoints: []snapshot.Endpoint{
				{Address: "10.0.0.1", Port: 80, Health: snapshot.Healthy, Weight: 1, Region: "eu", Zone: "b"},
				{Address: "10.0.0.2", Port: 80, Health: snapshot.Unhealthy, Weight: 2, Region: "eu", Zone: "a"},
				{Address: "10.0.0.3", Port: 80, Health: snapshot.Healthy, Weight: 3, Region: "eu", Zone: "b"},
			}},
		},
	}
}

func encode(t *testing.T, name string) *session.Resource {
	t.Helper()
	p := products()[name]
	r, err := Resource(p.ref, p.product)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestEqualProductsHaveEqualBytes(t *testing.T) {
	for name := range products() {
		t.Run(name, func(t *testing.T) {
			first := encode(t, name)
			for range 20 {
				if again := encode(t, name); !bytes.Equal(first.Body, again.Body) || first.Version != again.Version {
					t.Fatal("an equal product was encoded differently")
				}
			}
		})
	}
}

func TestAVersionIsThatOfTheContent(t *testing.T) {
	p := products()["cluster"]
	other := p.product.(snapshot.ClusterKey)
	other.Limits.MaxConnections = set(8)
	changed, err := Resource(p.ref, other)
	if err != nil {
		t.Fatal(err)
	}
	if changed.Version == encode(t, "cluster").Version {
		t.Error("a changed cluster kept its version")
	}
}

func TestReferencesAreWhatMustComeFirst(t *testing.T) {
	for name, want := range map[string][]string{
		"routes": {"api"}, "tcp listener": {"api"}, "cluster": {"api"},
		"refusal": nil, "http listener": nil, "endpoints": nil,
	} {
		got := encode(t, name).Refs
		if len(got) != len(want) || len(want) == 1 && got[0] != want[0] {
			t.Errorf("%s refers to %q, want %q", name, got, want)
		}
	}
}

func TestEveryLocalityHasTheWeightOfItsEndpoints(t *testing.T) {
	p := products()["endpoints"]
	set, err := endpoints("api", p.product.(snapshot.EndpointSet))
	if err != nil {
		t.Fatal(err)
	}
	weights := map[string]uint32{}
	for _, g := range set.GetEndpoints() {
		weights[g.GetLocality().GetZone()] = g.GetLoadBalancingWeight().GetValue()
	}
	if len(set.GetEndpoints()) != 2 || weights["a"] != 2 || weights["b"] != 4 {
		t.Errorf("weights by zone %v, want a:2 and b:4", weights)
	}
}

func TestAnUnknownProductIsAnError(t *testing.T) {
	if _, err := Resource(snapshot.Ref{Name: "x", Key: snapshot.RoutesKey{}}, "text"); err == nil {
		t.Error("a product without a translation was translated")
	}
}
