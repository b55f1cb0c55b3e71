package consulwatch

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/proto/subscribe"
)

// testSource is a source that is not run.
func testSource() *Source {
	return &Source{
		log: hclog.NewNullLogger(), metrics: noMetrics{}, limits: Limits{}.withDefaults(),
		away: map[facts.Topic]struct{}{}, veiled: map[facts.Topic]string{}, confirms: map[string]*turns{},
		polls: map[facts.Topic]string{}, pollsSaid: map[string]bool{},
	}
}

// testWatch follows the instances of api by the events that a test hands over.
func testWatch(store *facts.Store) *streamWatch {
	s := testSource()
	to := &sink{source: s, store: store, topic: apiHealth}
	w := &streamWatch{source: s, to: to, retry: exponential(1, 1), doubts: s.newDoubts(to), settle: newStopped()}
	w.forget()
	return w
}

// moment is an event that comes so long after the end of its snapshot.
type moment struct {
	after time.Duration
	event *subscribe.Event
}

// until hands events over until the snapshot counts, and returns how long after its end that is.
func (w *streamWatch) until(t *testing.T, moments []moment) time.Duration {
	t.Helper()
	begin := time.Now()
	for _, m := range moments {
		timer := time.NewTimer(time.Until(begin.Add(m.after)))
		select {
		case <-timer.C:
			if err := w.event(m.event); err != nil {
				t.Fatal(err)
			}
		case <-w.settle.C:
			return time.Since(begin)
		}
	}
	<-w.settle.C
	return time.Since(begin)
}

// Consul's snapshot may be from 10 s ago, and then what happened since follows its end. Nothing of it counts,
// least of all what it lacks, before there was a pause.
func TestASnapshotCountsWhenEventsHavePaused(t *testing.T) {
	const up, down = subscribe.CatalogOp_Register, subscribe.CatalogOp_Deregister
	is := func(index uint64) modelRow {
		return modelRow{status: "passing", node: index, own: index, check: index}
	}
	endless := []moment{{0, event(5, up, "a", is(5))}, {0, ended(5)}}
	for i := range 100 {
		endless = append(endless, moment{time.Duration(i) * settleTime / 2, event(uint64(6+i), up, "b", is(uint64(6+i)))})
	}
	for name, test := range map[string]struct {
		moments []moment
		counts  time.Duration
		want    []string
	}{
		"nothing follows":    {[]moment{{0, event(5, up, "a", is(5))}, {0, ended(5)}}, settleTime, []string{"a:passing"}},
		"there was nothing":  {[]moment{{0, ended(5)}}, settleTime, nil},
		"what follows":       {[]moment{{0, ended(5)}, {40 * time.Millisecond, event(6, up, "a", is(6))}}, 40*time.Millisecond + settleTime, []string{"a:passing"}},
		"what went since":    {[]moment{{0, event(5, up, "a", is(5))}, {0, ended(5)}, {9 * time.Millisecond, event(6, down, "a", is(5))}}, 9*time.Millisecond + settleTime, nil},
		"events have no end": {endless, settleMost, []string{"a:passing", "b:passing"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := facts.New()
				w := testWatch(store)
				defer w.end()
				defer w.settle.Stop()
				for range 2 { // the second stream is as patient as the first
					sub := store.Subscribe()
					if got := w.until(t, test.moments); got != test.counts {
						t.Errorf("it counts after %v; want %v", got, test.counts)
					}
					if _, changed := sub.Drain(); len(changed) > 0 {
						t.Errorf("%v changed before", changed)
					}
					sub.Close()
					w.settled()
					if err := instances(apiHealth, stateOf(store), test.want...)(store.View()); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Minute)
					w.forget()
					w.to.known = 0 // as after a reset, or the next would be from before
				}
			})
		})
	}
}

func stateOf(store *facts.Store) facts.State {
	_, state := store.View().Instances(apiHealth)
	return state
}

// What an event holds together, and the difference that a new snapshot makes, nobody sees half of.
func TestWhatBelongsTogetherIsOneCommit(t *testing.T) {
	t.Parallel()
	const up = subscribe.CatalogOp_Register
	both := func(index uint64) []*subscribe.Event {
		row := modelRow{status: []string{"passing", "critical"}[index%2], node: 1, own: 1, check: index}
		return []*subscribe.Event{event(index, up, "a", row), event(index, up, "b", row)}
	}
	snapshot := func(w *streamWatch, index uint64) {
		for _, e := range append(both(index), ended(index)) {
			_ = w.event(e) // it has the right shape
		}
		w.settled()
	}
	for name, tell := range map[string]func(w *streamWatch, index uint64){
		"a batch": func(w *streamWatch, index uint64) { _ = w.event(batch(index, both(index)...)) },
		"a new snapshot": func(w *streamWatch, index uint64) {
			_ = w.event(newSnapshot())
			snapshot(w, index)
		},
		"a snapshot after a reset": func(w *streamWatch, index uint64) {
			w.forget()
			snapshot(w, index)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := facts.New()
			w := testWatch(store)
			defer w.end()
			snapshot(w, 10)
			looking := look(t, store)
			for index := uint64(11); index < 5000; index++ {
				tell(w, index)
			}
			looking()
			if err := instances(apiHealth, stateOf(store), "a:critical", "b:critical")(store.View()); err != nil {
				t.Error(err)
			}
		})
	}
}

// look fails the test when a view has half of a change, until it is ended.
func look(t *testing.T, store *facts.Store) (end func()) {
	stop := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := alike(store.View()); err != nil {
				t.Error(err)
				return
			}
		}
	})
	return func() {
		close(stop)
		looking.Wait()
	}
}

// alike returns an error unless all instances of api, of which there are two, have one status.
func alike(v facts.View) error {
	list, _ := v.Instances(apiHealth)
	if len(list) != 2 || list[0].Checks[0].Status != list[1].Checks[0].Status {
		return fmt.Errorf("half of a change is seen: %+v", list)
	}
	return nil
}
