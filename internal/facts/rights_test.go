package facts_test

import (
	"slices"
	"testing"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

func TestARightIsUnknownUntilAskedAndReachesWhoReadIt(t *testing.T) {
	s := facts.New()
	s.Commit(func(tx *facts.Tx) { tx.CloseWorld() })
	topic := facts.Rights("r1", "API")
	sub := s.Subscribe()
	defer sub.Close()
	var reads map[facts.ID]struct{}
	expect := func(want facts.State) {
		t.Helper()
		r := s.View().Read()
		if got := r.Right("r1", "api"); got != want {
			t.Errorf("the right is %s, want %s", got, want)
		}
		reads = r.Reads()
	}
	change := func(f func(*facts.Tx)) {
		t.Helper()
		s.Commit(f)
		_, changed := sub.Drain()
		if !slices.ContainsFunc(changed, func(id facts.ID) bool { _, ok := reads[id]; return ok }) {
			t.Errorf("the change of %v does not reach who read %v", changed, reads)
		}
	}
	expect(facts.Unknown) // also in a closed world: files know no rights
	change(func(tx *facts.Tx) { tx.Right(topic, true) })
	expect(facts.Present)
	change(func(tx *facts.Tx) { tx.Right(topic, false) })
	expect(facts.Absent)
	s.Commit(func(tx *facts.Tx) { tx.Right(topic, false) })
	if _, changed := sub.Drain(); len(changed) > 0 {
		t.Errorf("the same right again changed %v", changed)
	}
	change(func(tx *facts.Tx) { tx.ForgetRight(topic, "Consul is away") })
	expect(facts.Unknown)
	if why := s.View().Why(facts.ID{Topic: topic}); why != "rights/r1/api: Consul is away" {
		t.Error(why)
	}
	change(func(tx *facts.Tx) { tx.Right(topic, true) })
	expect(facts.Present)
	change(func(tx *facts.Tx) { tx.Forget(topic) })
	expect(facts.Unknown)
	if n := len(s.View().Topics()); n != 0 {
		t.Errorf("%d topics are left", n)
	}
}

func TestWhoHasNoNameMayReadEverything(t *testing.T) {
	r := facts.New().View().Read()
	if got := r.Right("", "api"); got != facts.Present || len(r.Reads()) > 0 {
		t.Errorf("%s, having read %v", got, r.Reads())
	}
}

func TestRightsAreNeededApartFromWhatIsFollowed(t *testing.T) {
	s := facts.New()
	follow, end := s.NeedsBell()
	defer end()
	rights, hangUp := s.RightsBell()
	defer hangUp()
	rang := func(bell <-chan struct{}) bool {
		select {
		case <-bell:
			return true
		default:
			return false
		}
	}
	right := facts.Rights("r1", "api")
	s.Need("a", topic, right)
	if !rang(follow) || !rang(rights) {
		t.Error("a need does not ring")
	}
	s.Need("a", topic)
	if rang(follow) || !rang(rights) || len(s.RightsNeeds()) != 0 {
		t.Errorf("the end of a need of rights alone: %v", s.RightsNeeds())
	}
	s.Need("b", right)
	if got, _ := s.Needs(); !slices.Equal(got, []facts.Topic{topic}) {
		t.Errorf("sources are told %v", got)
	}
	if got := s.RightsNeeds(); !slices.Equal(got, []facts.Topic{right}) {
		t.Errorf("rights needed: %v", got)
	}
}

func TestSpellingsAreThoseThatALookUpFinds(t *testing.T) {
	s := facts.New()
	s.Commit(func(tx *facts.Tx) {
		tx.Services("dc1", []string{"Api", "apis"}, confirmed)
		tx.Services("dc2", []string{"API"}, confirmed)
		tx.Entries(chain.KindServiceResolver, []chain.Entry{&chain.ServiceResolver{Header: chain.Header{Name: "Api"}}}, confirmed)
		tx.Entries(chain.KindServiceRouter, []chain.Entry{&chain.ServiceRouter{Header: chain.Header{Name: "aPI"}}}, confirmed)
	})
	if got := s.View().Spellings("api"); !slices.Equal(got, []string{"API", "Api", "aPI"}) {
		t.Errorf("%q", got)
	}
	if got := s.View().Spellings("web"); got != nil {
		t.Errorf("%q", got)
	}
}
