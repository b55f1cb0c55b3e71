package facts_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

var (
	confirmed = facts.Reading{Confirmed: true}
	doubtful  = facts.Reading{}
	topic     = facts.Health("dc1", "api")
)

func row(node, id string, index uint64, status facts.CheckStatus) *facts.Instance {
	return &facts.Instance{
		Node:    facts.Node{Node: node, ModifyIndex: index},
		Service: facts.Service{ID: id, Service: "api", ModifyIndex: index},
		Checks:  []facts.Check{{CheckID: "c", Status: status, ModifyIndex: index}},
	}
}

func put(s *facts.Store, r facts.Reading, rows ...*facts.Instance) (out facts.Outcome) {
	s.Commit(func(tx *facts.Tx) { out = tx.Instances(topic, rows, r) })
	return out
}

func ids(s *facts.Store) ([]string, facts.State) {
	list, state := s.View().Instances(topic)
	var got []string
	for _, in := range list {
		got = append(got, in.Node.Node+"/"+in.Service.ID+"/"+string(in.Checks[0].Status))
	}
	return got, state
}

func want(t *testing.T, s *facts.Store, state facts.State, rows ...string) {
	t.Helper()
	if got, gotState := ids(s); !slices.Equal(got, rows) || gotState != state {
		t.Errorf("holds %v, %s; want %v, %s", got, gotState, rows, state)
	}
}

func TestAnUnconfirmedRemovalIsSuspectAndServed(t *testing.T) {
	s := facts.New()
	put(s, confirmed, row("n1", "a", 1, "passing"), row("n1", "b", 1, "passing"))
	out := put(s, doubtful, row("n1", "a", 1, "passing"))
	if out.Suspects != 1 || out.Changed {
		t.Errorf("%+v, want one suspect and no change", out)
	}
	want(t, s, facts.Present, "n1/a/passing", "n1/b/passing")
	put(s, doubtful)
	want(t, s, facts.Suspect, "n1/a/passing", "n1/b/passing")
	put(s, doubtful, row("n1", "b", 1, "passing"))
	want(t, s, facts.Present, "n1/a/passing", "n1/b/passing")
	if out := put(s, confirmed); !out.Changed || out.Suspects != 0 {
		t.Errorf("a confirmed removal: %+v", out)
	}
	want(t, s, facts.Absent)
}

func TestAnEmptyFirstReadingThatIsNotConfirmedIsUnknown(t *testing.T) {
	s := facts.New()
	if out := put(s, doubtful); !out.Unconfirmed {
		t.Errorf("%+v", out)
	}
	want(t, s, facts.Unknown)
	if s.View().Known(topic) {
		t.Error("what was never confirmed and has no rows is not known")
	}
	put(s, confirmed)
	want(t, s, facts.Absent)
}

func TestRowsThatAreNotTheSameAreNotMistakenForEachOther(t *testing.T) {
	s := facts.New()
	put(s, confirmed, row("n1", "2", 1, "passing"), row("n", "12", 1, "passing"))
	put(s, confirmed, row("n1", "2", 1, "passing"))
	want(t, s, facts.Present, "n1/2/passing")
}

func TestNoPartGoesBackInTime(t *testing.T) {
	s := facts.New()
	put(s, confirmed, row("n1", "a", 10, "critical"))
	if out := put(s, confirmed, row("n1", "a", 9, "passing")); out.Changed {
		t.Error("an older row changed something")
	}
	want(t, s, facts.Present, "n1/a/critical")
	put(s, facts.Reading{Confirmed: true, Reset: true}, row("n1", "a", 3, "passing"))
	want(t, s, facts.Present, "n1/a/passing")

	// A check that is deleted lowers the highest index of its instance, which is not a step back.
	two := row("n1", "a", 20, "passing")
	two.Checks = append(two.Checks, facts.Check{CheckID: "d", Status: "critical", ModifyIndex: 30})
	put(s, confirmed, two)
	put(s, confirmed, row("n1", "a", 20, "passing"))
	if list, _ := s.View().Instances(topic); len(list[0].Checks) != 1 {
		t.Errorf("the deleted check is still there: %+v", list[0].Checks)
	}
}

func TestOnlyContentCountsAsAChange(t *testing.T) {
	s := facts.New()
	put(s, confirmed, row("n1", "a", 1, "passing"))
	sub := s.Subscribe()
	defer sub.Close()
	if out := put(s, confirmed, row("n1", "a", 2, "passing")); out.Changed {
		t.Error("a new index alone is a change")
	}
	swapped := row("n1", "a", 3, "passing")
	swapped.Checks = append([]facts.Check{{CheckID: "z", Status: "passing"}}, swapped.Checks...)
	put(s, confirmed, swapped)
	again := row("n1", "a", 3, "passing")
	again.Checks = append(again.Checks, facts.Check{CheckID: "z", Status: "passing"})
	sub.Drain()
	if out := put(s, confirmed, again); out.Changed {
		t.Error("the order of checks is a change")
	}
	entry := func(origin string) []chain.Entry {
		return []chain.Entry{&chain.ServiceResolver{Header: chain.Header{Name: "api", Origin: origin}}}
	}
	s.Commit(func(tx *facts.Tx) { tx.Entries(chain.KindServiceResolver, entry("a.hcl:1"), confirmed) })
	sub.Drain()
	s.Commit(func(tx *facts.Tx) { tx.Entries(chain.KindServiceResolver, entry("a.hcl:7"), confirmed) })
	if _, changed := sub.Drain(); len(changed) != 0 {
		t.Errorf("where an entry is written counts as a change: %v", changed)
	}
}

func TestAChangeNamesExactlyWhatChanged(t *testing.T) {
	s := facts.New()
	s.Commit(func(tx *facts.Tx) {
		tx.Entries(chain.KindServiceResolver, []chain.Entry{
			&chain.ServiceResolver{Header: chain.Header{Name: "api"}},
			&chain.ServiceResolver{Header: chain.Header{Name: "db"}},
		}, confirmed)
	})
	sub := s.Subscribe()
	defer sub.Close()
	s.Commit(func(tx *facts.Tx) {
		tx.Entries(chain.KindServiceResolver, []chain.Entry{
			&chain.ServiceResolver{Header: chain.Header{Name: "API"}, DefaultSubset: "v1"},
			&chain.ServiceResolver{Header: chain.Header{Name: "db"}},
		}, confirmed)
	})
	<-sub.Bell()
	_, changed := sub.Drain()
	if len(changed) != 1 || changed[0] != (facts.ID{Topic: facts.Entries(chain.KindServiceResolver), Row: "api"}) {
		t.Errorf("changed %v", changed)
	}
}

func TestAReaderRemembersWhatWasNotThere(t *testing.T) {
	s := facts.New()
	r := s.View().Read()
	if r.Entry(chain.KindServiceRouter, "API") != nil || len(r.Unknown()) != 1 {
		t.Errorf("unknown %v", r.Unknown())
	}
	sub := s.Subscribe()
	defer sub.Close()
	s.Commit(func(tx *facts.Tx) { tx.Entries(chain.KindServiceRouter, nil, confirmed) })
	_, changed := sub.Drain()
	if !slices.ContainsFunc(changed, func(id facts.ID) bool { _, ok := r.Reads()[id]; return ok }) {
		t.Errorf("what became absent (%v) does not reach who read it (%v)", changed, r.Reads())
	}
	if r := s.View().Read(); r.Entry(chain.KindServiceRouter, "api") != nil || len(r.Unknown()) != 0 {
		t.Errorf("absent is not unknown: %v", r.Unknown())
	}
}

func TestAServiceThatIsNotListedIsAbsentWithoutAWatch(t *testing.T) {
	s := facts.New()
	s.Commit(func(tx *facts.Tx) { tx.Services("dc1", []string{"web"}, confirmed) })
	want(t, s, facts.Absent)
	if !s.View().Known(topic) || s.View().Known(facts.Health("dc1", "web")) || s.View().Known(facts.Health("dc2", "api")) {
		t.Error("known: what the list lacks, and nothing else")
	}
}

func TestInAClosedWorldWhatIsNotThereIsAbsent(t *testing.T) {
	s := facts.New()
	s.Commit(func(tx *facts.Tx) { tx.CloseWorld() })
	want(t, s, facts.Absent)
	if _, state := s.View().Entry(chain.KindServiceRouter, "api"); state != facts.Absent {
		t.Errorf("an entry is %s", state)
	}
}

func TestReadySaysWhatIsMissing(t *testing.T) {
	s := facts.New()
	if ok, why := s.View().Ready("dc1"); ok || why == "" {
		t.Errorf("empty: %v %q", ok, why)
	}
	s.Commit(func(tx *facts.Tx) {
		tx.Services("dc1", nil, confirmed)
		for _, k := range chain.AllKinds() {
			tx.Entries(k, nil, confirmed)
		}
	})
	if ok, why := s.View().Ready("dc1"); !ok {
		t.Errorf("loaded: %q", why)
	}
	s.Commit(func(tx *facts.Tx) { tx.Fail(facts.Services("dc1"), "Consul is gone") })
	if ok, _ := s.View().Ready("dc1"); !ok {
		t.Error("what is known stays known when the source is lost")
	}
}

func TestNeedsAreCountedAndRingOnce(t *testing.T) {
	s := facts.New()
	bell, end := s.NeedsBell()
	defer end()
	rings := func() bool {
		select {
		case <-bell:
			return true
		default:
			return false
		}
	}
	s.Need("a", topic)
	if !rings() {
		t.Error("a first need does not ring")
	}
	s.Need("b", topic)
	s.Need("a")
	if rings() {
		t.Error("a need that is shared rings")
	}
	if topics, count := s.Needs(); len(topics) != 1 || count[topic] != 1 {
		t.Errorf("needs %v %v", topics, count)
	}
	s.Need("b")
	if topics, _ := s.Needs(); !rings() || len(topics) != 0 {
		t.Errorf("the last need stays: %v", topics)
	}
}

func TestForgettingATopicMakesItUnknown(t *testing.T) {
	s := facts.New()
	put(s, confirmed, row("n1", "a", 1, "passing"))
	s.Commit(func(tx *facts.Tx) { tx.Forget(topic) })
	want(t, s, facts.Unknown)
}

func TestViewsAreReadWhileFactsChange(t *testing.T) {
	s := facts.New()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				ids(s)
			}
		})
	}
	for i := range 200 {
		put(s, confirmed, row("n1", "a", uint64(i), "passing"))
	}
	wg.Wait()
}
