package server

import (
	"strings"
	"testing"

	"github.com/catenary-mesh/catenary/hds"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/snapshot"
)

// on is a checker on a node, which speaks to endpoints by tcp.
func (s *still) on(id, node string) *stream {
	st := &stream{
		id: id, hello: hds.Hello{NodeID: id, Version: "1.40.0", Can: hds.Capability{TCP: true}},
		client: snapshot.Client{Node: node}, bell: make(chan struct{}, 1),
	}
	_ = s.join(s.now, st) // there are few
	return st
}

func TestWhyNobodyProbesAnEndpointIsSaid(t *testing.T) {
	s := newStill(t)
	s.commit(func(tx *facts.Tx) {
		tx.Instances(api, []*facts.Instance{placed("a", "n1", "10.1.0.1", 80, byTCP), placed("b", "n1", "10.1.0.1", 81, byHTTP)}, whole)
	})
	s.need(api)
	why := func(at, part string) {
		t.Helper()
		got := ""
		for _, e := range s.health(s.now, s.services["api"], s.overview(s.now)).Endpoints {
			if e.Address == at {
				got = e.Why
			}
		}
		if !strings.Contains(got, part) {
			t.Errorf("of %s it says %q, and not %q", at, got, part)
		}
	}
	const first, second = "10.1.0.1:80", "10.1.0.1:81"
	why(first, "no checker is connected")
	own := s.on("own", "n1")
	s.pass(t, gather)
	why(first, "own node")
	why(second, "no checker can do this probe")
	own.broken = "silent"
	s.retire(s.now, s.checkers["own"], hds.Broken)
	why(first, "all checkers are broken")
	s.on("other", "n2")
	why(first, "no checker has it yet")
	why(second, "no checker can do this probe")
	s.pass(t, gather)
	why(first, "no quorum: 0 up and 0 down of 2 checkers")
}
