package consulwatch

import (
	"strings"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/proto/subscribe"
)

// bell makes of the events of one subscription when a topic is to be read as a whole, for topics whose
// events do not tell all: config entries have one decoder, and it reads lists; registrations of sidecars
// are wanted with the central configuration; and the list of services is told that a name is gone when
// only its last sidecar is.
type bell struct {
	kind facts.TopicKind
	// index is that of the newest event, from which a subscription may be resumed.
	index uint64
	live  bool
	// read is the index of the last reading: it holds what happened up to there.
	read uint64
	// registered is, for registrations, the index of each: an event for a check is no news.
	registered map[instanceKey]uint64
}

// reset forgets the view: a snapshot follows.
func (b *bell) reset() {
	b.index, b.live, b.registered = 0, false, map[instanceKey]uint64{}
}

// apply takes an event and reports whether the topic is to be read.
func (b *bell) apply(e *subscribe.Event) (rings bool) {
	switch p := e.GetPayload().(type) {
	case *subscribe.Event_NewSnapshotToFollow:
		b.reset()
		return false
	case *subscribe.Event_EndOfSnapshot:
		b.live, b.index = true, max(b.index, e.GetIndex())
		// The token may have lost its rights between the reading and the stream, which no event tells: Consul ends the
		// streams that there are. Of registrations there are too many to have all of them read once more.
		return b.kind != facts.TopicProxies || e.GetIndex() > b.read
	case *subscribe.Event_EventBatch:
		for _, one := range p.EventBatch.GetEvents() {
			rings = b.news(one) || rings
		}
	default:
		rings = b.news(e)
	}
	b.index = max(b.index, e.GetIndex())
	return rings && b.live && e.GetIndex() > b.read
}

// news reports whether an event is about what is read.
func (b *bell) news(e *subscribe.Event) bool {
	if b.kind != facts.TopicProxies {
		return true
	}
	u := e.GetServiceHealth()
	row := u.GetCheckServiceNode()
	key := instanceKey{strings.ToLower(row.GetNode().GetNode()), strings.ToLower(row.GetService().GetId())}
	if u.GetOp() == subscribe.CatalogOp_Deregister {
		delete(b.registered, key)
		return true
	}
	index := max(row.GetNode().GetRaftIndex().GetModifyIndex(), row.GetService().GetRaftIndex().GetModifyIndex())
	known := b.registered[key]
	b.registered[key] = index
	return index != known
}
