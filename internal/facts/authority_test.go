package facts_test

import (
	"testing"

	"github.com/catenary-mesh/catenary/internal/facts"
)

func TestValuesAreUnknownUntilCommittedAndChangeOnlyByContent(t *testing.T) {
	s := facts.New()
	sub := s.Subscribe()
	defer sub.Close()
	r := s.View().Read()
	if _, state := r.Roots(); state != facts.Unknown {
		t.Fatalf("roots never read: %v", state)
	}
	if _, state := r.DefaultIntention(); state != facts.Unknown {
		t.Fatalf("default never read: %v", state)
	}
	if len(r.Unknown()) != 2 {
		t.Fatalf("a reader forgets what is unknown: %v", r.Unknown())
	}
	roots := facts.Roots{TrustDomain: "A.consul", List: []facts.Root{{ID: "one", Cert: "pem", Active: true}}}
	s.Commit(func(tx *facts.Tx) {
		tx.Roots(roots)
		tx.DefaultIntention(false)
		tx.Leaf(facts.LeafOf("Web"), facts.Leaf{Service: "Web", Serial: "1"})
	})
	view, changed := sub.Drain()
	if got, state := view.Roots(); state != facts.Present || got.TrustDomain != "a.consul" {
		t.Fatalf("roots: %+v, %v", got, state)
	}
	if allow, state := view.DefaultIntention(); state != facts.Present || allow {
		t.Fatalf("default: %v, %v", allow, state)
	}
	if leaf, state := view.Leaf("Web"); state != facts.Present || leaf.Serial != "1" {
		t.Fatalf("leaf: %+v, %v", leaf, state)
	}
	if _, state := view.Leaf("web"); state != facts.Unknown {
		t.Fatalf("the certificate of Web is that of web: %v", state)
	}
	if len(changed) == 0 {
		t.Fatal("nothing was told of")
	}
	s.Commit(func(tx *facts.Tx) {
		if out := tx.Roots(roots); out.Changed {
			t.Error("equal roots count as a change")
		}
		tx.Roots(facts.Roots{TrustDomain: "a.consul"})
	})
	if got, state := s.View().Roots(); state != facts.Present || len(got.List) != 1 {
		t.Fatalf("an answer without roots took them away: %+v, %v", got, state)
	}
	s.Commit(func(tx *facts.Tx) { tx.Forget(facts.LeafOf("Web")) })
	if _, state := s.View().Leaf("Web"); state != facts.Unknown {
		t.Fatalf("a forgotten leaf is %v", state)
	}
}

func TestGatewaysAreNoServiceThatIsMissing(t *testing.T) {
	s := facts.New()
	s.Commit(func(tx *facts.Tx) { tx.Services("dc1", []string{"web"}, facts.Reading{Confirmed: true}) })
	if s.View().Known(facts.Gateways("dc1")) {
		t.Fatal("gateways are known before they were read")
	}
	if _, state := s.View().Instances(facts.Gateways("dc1")); state != facts.Unknown {
		t.Fatalf("gateways are %v before they were read", state)
	}
}

func TestWhatASourceHasNotIsNoFault(t *testing.T) {
	s := facts.New()
	sub := s.Subscribe()
	defer sub.Close()
	s.Commit(func(tx *facts.Tx) { tx.Off(facts.CARoots(), "there is no mesh") })
	view, changed := sub.Drain()
	if status := view.Topic(facts.CARoots()); !status.Off || status.Failure != "there is no mesh" || len(changed) != 1 {
		t.Fatalf("%+v, and %v changed", status, changed)
	}
	if _, state := view.Roots(); state != facts.Unknown {
		t.Fatalf("roots that there are none of are %s", state)
	}
	s.Commit(func(tx *facts.Tx) { tx.Fail(facts.CARoots(), "there is no mesh") })
	if s.View().Topic(facts.CARoots()).Off {
		t.Fatal("a failure is taken for no fault")
	}
	s.Commit(func(tx *facts.Tx) {
		tx.Off(facts.CARoots(), "there is no mesh")
		tx.Roots(facts.Roots{TrustDomain: "a.consul", List: []facts.Root{{ID: "one"}}})
	})
	if status := s.View().Topic(facts.CARoots()); status.Off || status.Failure != "" {
		t.Fatalf("there are roots now, and it is %+v", status)
	}
}
