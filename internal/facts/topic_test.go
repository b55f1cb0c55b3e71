package facts_test

import (
	"testing"

	"github.com/catenary-mesh/catenary/internal/facts"
)

func TestTopicsIgnoreTheCaseOfServices(t *testing.T) {
	if facts.Health("dc1", "Web") != facts.Health("dc1", "web") || facts.Connect("dc1", "WEB") != facts.Connect("dc1", "web") ||
		facts.Proxies("dc1", "Web") != facts.Proxies("dc1", "weB") {
		t.Error("one service has several topics")
	}
}

func TestAPeersServiceIsNotTheOwn(t *testing.T) {
	own, of := facts.Connect("dc1", "api"), facts.ConnectOfPeer("East", "API")
	if of.String() != "connect/peer:east/api" || of.String() == own.String() {
		t.Errorf("%s and %s", own, of)
	}
	if facts.HealthOfPeer("east", "api") == facts.HealthOfPeer("west", "api") {
		t.Error("two peers have one topic")
	}
	s := facts.New()
	s.Commit(func(tx *facts.Tx) { tx.Services("dc1", nil, facts.Reading{Confirmed: true}) })
	r := s.View().Read()
	if _, state := r.Instances(of); state != facts.Unknown || len(r.Unknown()) != 1 {
		t.Errorf("an imported service that was not read is %s, and what is unknown is %v", state, r.Unknown())
	}
}
