package consulwatch

import (
	"testing"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/proto/subscribe"
)

func ended(index uint64) *subscribe.Event {
	return &subscribe.Event{Index: index, Payload: &subscribe.Event_EndOfSnapshot{EndOfSnapshot: true}}
}

func listed(index uint64, op subscribe.CatalogOp) *subscribe.Event {
	return &subscribe.Event{Index: index, Payload: &subscribe.Event_Service{Service: &subscribe.ServiceListUpdate{Op: op, Name: "api"}}}
}

func batch(index uint64, events ...*subscribe.Event) *subscribe.Event {
	return &subscribe.Event{Index: index, Payload: &subscribe.Event_EventBatch{EventBatch: &subscribe.EventBatch{Events: events}}}
}

func newSnapshot() *subscribe.Event {
	return &subscribe.Event{Payload: &subscribe.Event_NewSnapshotToFollow{NewSnapshotToFollow: true}}
}

// sidecar is an event of a registration at an index, whose checks are at another.
func sidecar(index, registered uint64, op subscribe.CatalogOp) *subscribe.Event {
	return event(index, op, "a", modelRow{status: "passing", node: 1, own: registered, check: index})
}

func TestWhatRingsTheBell(t *testing.T) {
	const up, down = subscribe.CatalogOp_Register, subscribe.CatalogOp_Deregister
	type step struct {
		name  string
		event *subscribe.Event
		rings bool
	}
	for name, test := range map[string]struct {
		kind  facts.TopicKind
		read  uint64 // of the reading before
		steps []step
	}{
		"the snapshot is read once": {facts.TopicServices, 0, []step{
			{"a name of it", listed(5, up), false},
			{"its end", ended(5), true},
			{"a name that comes", listed(6, up), true},
			{"one that goes", listed(7, down), true},
			{"several", batch(8, listed(8, up), listed(8, down)), true},
		}},
		"what registrations were read before is not read again": {facts.TopicProxies, 7, []step{
			{"the snapshot", sidecar(5, 5, up), false},
			{"its end", ended(5), false},
			{"news", sidecar(8, 8, up), true},
		}},
		"what was read before is read once more, in case that rights were lost": {facts.TopicEntries, 7, []step{
			{"the end of the snapshot", ended(5), true},
			{"what is replayed", listed(6, up), false},
			{"the same", listed(7, up), false},
			{"news", listed(8, up), true},
		}},
		"a new snapshot is silent to its end": {facts.TopicServices, 0, []step{
			{"the end", ended(5), true},
			{"the announcement", newSnapshot(), false},
			{"a name", listed(9, up), false},
			{"the end", ended(9), true},
		}},
		"checks of registrations are silent": {facts.TopicProxies, 0, []step{
			{"the snapshot", sidecar(5, 5, up), false},
			{"its end", ended(5), true},
			{"a check", sidecar(6, 5, up), false},
			{"two checks", batch(7, sidecar(7, 5, up), sidecar(7, 5, up)), false},
			{"another registration", sidecar(8, 8, up), true},
			{"none", sidecar(9, 0, down), true},
			{"the same again", sidecar(10, 8, up), true},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := &bell{kind: test.kind, read: test.read}
			b.reset()
			for _, s := range test.steps {
				if got := b.apply(s.event); got != s.rings {
					t.Errorf("%s rings: %t", s.name, got)
				}
			}
		})
	}
}
