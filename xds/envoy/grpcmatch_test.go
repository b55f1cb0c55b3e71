package envoy

import (
	"testing"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/snapshot"
)

// @grpc/grpc-js-xds puts anchors around expressions, and takes a header that is missing for excluded.
func TestRoutesForGRPCAreReadAlikeByAllLibraries(t *testing.T) {
	node := &chain.Node{Type: chain.NodeResolver, Resolver: &chain.Resolver{Target: "api"}}
	b := &routeBuilder{chain: &chain.Chain{Targets: map[string]*chain.Target{"api": {ID: "api", Name: "api"}}}}
	m := b.grpcRoute(&snapshot.GRPCRoute{Node: node, Match: &chain.HTTPMatch{
		PathRegex: "/a|/b", Header: []chain.HeaderMatch{{Name: "x", Exact: "1", Invert: true}},
	}}).GetMatch()
	if got := m.GetSafeRegex().GetRegex(); got != "(?:/a|/b)" {
		t.Errorf("the path is matched by %q", got)
	}
	if h := m.GetHeaders(); len(h) != 2 || !h[0].GetInvertMatch() || h[1].GetName() != "x" || !h[1].GetPresentMatch() || h[1].GetInvertMatch() {
		t.Errorf("headers are matched by %v", h)
	}
}

func TestAnExpressionIsPutInAGroup(t *testing.T) {
	for in, want := range map[string]string{"a|b": "(?:a|b)", `\Qa.b`: `(?:\Qa.b\E)`, `\Qa\E|b`: `(?:\Qa\E|b)`, "": "(?:)"} {
		if got := group(in); got != want || !compiles(got) {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}
