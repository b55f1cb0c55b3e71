package facts_test

import (
	"testing"

	"github.com/catenary-mesh/catenary/internal/facts"
)

func putOne(s *facts.Store, in *facts.Instance) (changed bool) {
	s.Commit(func(tx *facts.Tx) { changed = tx.PutInstance(topic, in) })
	return changed
}

func removeOne(s *facts.Store, node, id string, index uint64) (changed bool) {
	s.Commit(func(tx *facts.Tx) { changed = tx.RemoveInstance(topic, node, id, index) })
	return changed
}

func TestOneInstanceIsPutAndRemovedAlone(t *testing.T) {
	s := facts.New()
	put(s, confirmed, row("n1", "a", 1, "passing"), row("n1", "b", 1, "passing"))
	if !putOne(s, row("n1", "a", 2, "critical")) || putOne(s, row("n1", "a", 3, "critical")) {
		t.Error("what changed is not told by content")
	}
	want(t, s, facts.Present, "n1/a/critical", "n1/b/passing")
	putOne(s, row("n1", "a", 2, "passing")) // older than what is there
	want(t, s, facts.Present, "n1/a/critical", "n1/b/passing")
	if !removeOne(s, "N1", "A", 4) || removeOne(s, "n1", "a", 5) {
		t.Error("the instance did not go once")
	}
	want(t, s, facts.Present, "n1/b/passing")
	removeOne(s, "n1", "b", 6)
	want(t, s, facts.Absent)
}

func TestARemovalBeforeTheInstanceCameBackIsOld(t *testing.T) {
	s := facts.New()
	putOne(s, row("n1", "a", 9, "passing"))
	if removeOne(s, "n1", "a", 7) {
		t.Error("an old removal removes")
	}
	want(t, s, facts.Present, "n1/a/passing")
	if !s.View().Known(topic) {
		t.Error("an instance is there, and the topic is not known")
	}
}

func TestAnInstanceThatIsSeenAgainIsSuspectNoMore(t *testing.T) {
	s := facts.New()
	put(s, confirmed, row("n1", "a", 1, "passing"))
	put(s, doubtful)
	want(t, s, facts.Suspect, "n1/a/passing")
	putOne(s, row("n1", "a", 1, "passing"))
	want(t, s, facts.Present, "n1/a/passing")
}

func TestAReadingTellsHowManyOfItsRowsAreOlder(t *testing.T) {
	s := facts.New()
	put(s, confirmed, row("n1", "a", 5, "passing"), row("n1", "b", 5, "passing"))
	if out := put(s, doubtful, row("n1", "a", 4, "critical"), row("n1", "b", 6, "passing")); out.Older != 1 || out.Changed {
		t.Errorf("%+v, want one older and no change", out)
	}
	if out := put(s, facts.Reading{Reset: true}, row("n1", "a", 4, "critical"), row("n1", "b", 6, "passing")); out.Older != 0 {
		t.Errorf("after a reset: %+v", out)
	}
	want(t, s, facts.Present, "n1/a/critical", "n1/b/passing")
}

func BenchmarkOneFlipAmongMany(b *testing.B) {
	for _, n := range []struct {
		name string
		rows int
	}{{"10", 10}, {"1000", 1000}} {
		b.Run(n.name, func(b *testing.B) {
			s := facts.New()
			var rows []*facts.Instance
			for i := range n.rows {
				rows = append(rows, row("n1", "id-"+string(rune('a'+i%26))+string(rune('a'+i/26)), 1, "passing"))
			}
			put(s, confirmed, rows...)
			flips := [2]*facts.Instance{row("n1", "id-aa", 2, "passing"), row("n1", "id-aa", 2, "critical")}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				putOne(s, flips[i%2])
				i++
			}
		})
	}
}
