package consulwatch

import (
	"fmt"
	"testing"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/proto/subscribe"
)

// flips is a store with services of instances, and the watch of one of the services.
type flips struct {
	w      *streamWatch
	index  uint64
	events [2]*subscribe.Event // the two sides of a flip
}

func newFlips(services, each int) *flips {
	store := facts.New()
	f := &flips{w: testWatch(store), index: 10}
	fill := func(w *streamWatch) {
		for i := range each {
			_ = w.event(f.row(10, i, "passing")) // it has the right shape
		}
		_ = w.event(ended(10))
		w.settled()
	}
	for i := range services - 1 {
		other := testWatch(store)
		other.to.topic = facts.Health("dc1", fmt.Sprintf("other-%d", i))
		fill(other)
		other.end()
	}
	fill(f.w)
	return f
}

// row is an event about an instance.
func (*flips) row(index uint64, instance int, status string) *subscribe.Event {
	return event(index, subscribe.CatalogOp_Register, fmt.Sprintf("api-%d", instance), modelRow{status: status, node: 1, own: 1, check: index})
}

// flip has Consul tell that a check has changed.
func (f *flips) flip() {
	f.index++
	e := &f.events[f.index%2]
	if *e == nil {
		*e = f.row(f.index, 0, []string{"passing", "critical"}[f.index%2])
	}
	(*e).Index = f.index
	(*e).GetServiceHealth().GetCheckServiceNode().GetChecks()[0].RaftIndex.ModifyIndex = f.index
	_ = f.w.event(*e) // it has the right shape
}

// What one flip takes does not depend on how many services and instances there are, but for the depth of
// the store's tree.
func TestAFlipTakesTheSameHoweverMuchThereIs(t *testing.T) {
	const most, deeper = 200, 20
	least := 0.0
	for _, size := range []struct{ services, each int }{{10, 10}, {10, 1000}, {5000, 10}} {
		f := newFlips(size.services, size.each)
		n := testing.AllocsPerRun(100, f.flip)
		list, _ := f.w.to.store.View().Instances(apiHealth)
		if at := list[0].Checks[0].ModifyIndex; at != f.index {
			t.Errorf("the last flip is of index %d; want %d", at, f.index)
		}
		f.w.end()
		t.Logf("%d services of %d instances: %v allocations", size.services, size.each, n)
		if least == 0 {
			least = n
		}
		if n > most || n > least+deeper {
			t.Errorf("%d services of %d instances: %v allocations; want %v and %d more at most, and never %d", size.services, size.each, n, least, deeper, most)
		}
	}
}

// BenchmarkAFlip is one event of a check until the fact is in the store.
func BenchmarkAFlip(b *testing.B) {
	for _, size := range []struct{ services, each int }{{10, 10}, {10, 1000}, {5000, 10}} {
		b.Run(fmt.Sprintf("%d services of %d instances", size.services, size.each), func(b *testing.B) {
			f := newFlips(size.services, size.each)
			defer f.w.end()
			b.ReportAllocs()
			for b.Loop() {
				f.flip()
			}
		})
	}
}
