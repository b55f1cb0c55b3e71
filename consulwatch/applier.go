package consulwatch

import (
	"fmt"
	"strings"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/proto/subscribe"
)

// applier makes of the events of one subscription what is to be committed. A snapshot, and what is
// replayed after it, is gathered until [applier.settle]; after that each event has its own effect. It
// knows no time and no connection.
type applier struct {
	// index is that of the newest event of this view, from which a subscription may be resumed; 0 when
	// there is no view to resume.
	index uint64
	// gathering holds the snapshot as it comes; nil when the view is live.
	gathering map[instanceKey]*facts.Instance
	// ended means that the snapshot has ended, and is only being caught up with.
	ended bool
	// floor is the index of a reading of the whole that was committed since: it holds what happened up
	// to there.
	floor uint64
}

// instanceKey is what tells instances of a topic apart: node and service ID, whose case Consul ignores.
type instanceKey struct{ node, id string }

func keyOf(in *facts.Instance) instanceKey {
	return instanceKey{strings.ToLower(in.Node.Node), strings.ToLower(in.Service.ID)}
}

// effect is what one instance became at an index.
type effect struct {
	key   instanceKey
	put   *facts.Instance // nil when it was removed
	index uint64
	// old means that a reading of the whole has it, unless Consul was restored since, which the next shows.
	old bool
}

// reset forgets the view: a snapshot follows. What was committed is none of its concern.
func (a *applier) reset() {
	*a = applier{gathering: map[instanceKey]*facts.Instance{}}
}

// live reports whether events have their effect at once.
func (a *applier) live() bool { return a.gathering == nil }

// apply takes an event and returns its effects, which are to be committed together. While a snapshot is
// gathered there are none.
func (a *applier) apply(e *subscribe.Event) ([]effect, error) {
	switch p := e.GetPayload().(type) {
	case *subscribe.Event_NewSnapshotToFollow:
		a.reset()
		return nil, nil
	case *subscribe.Event_EndOfSnapshot:
		a.ended = !a.live()
		a.index = max(a.index, e.GetIndex())
		return nil, nil
	case *subscribe.Event_EventBatch:
		var all []effect
		for _, one := range p.EventBatch.GetEvents() {
			effects, err := a.update(one.GetServiceHealth(), e.GetIndex())
			if err != nil {
				return nil, err
			}
			all = append(all, effects...)
		}
		a.index = max(a.index, e.GetIndex())
		return all, nil
	case *subscribe.Event_ServiceHealth:
		effects, err := a.update(p.ServiceHealth, e.GetIndex())
		a.index = max(a.index, e.GetIndex())
		return effects, err
	}
	return nil, fmt.Errorf("an event of type %T on a topic of service health", e.GetPayload())
}

func (a *applier) update(u *subscribe.ServiceHealthUpdate, index uint64) ([]effect, error) {
	row := u.GetCheckServiceNode()
	e := effect{index: index, key: instanceKey{
		node: strings.ToLower(row.GetNode().GetNode()), id: strings.ToLower(row.GetService().GetId()),
	}}
	switch {
	case e.key.node == "" || e.key.id == "":
		return nil, fmt.Errorf("an event of service health has no node or no service ID")
	case index < a.index:
		return nil, nil // told before
	case u.GetOp() == subscribe.CatalogOp_Register:
		in, err := eventInstance(row)
		if err != nil {
			return nil, err
		}
		e.put = in
	}
	switch {
	case a.live():
		e.old = index <= a.floor
		return []effect{e}, nil
	case e.put != nil:
		a.gathering[e.key] = e.put
	default:
		delete(a.gathering, e.key)
	}
	return nil, nil
}

// settle ends the gathering and returns all instances there are; from now on the view is live.
func (a *applier) settle() []*facts.Instance {
	list := make([]*facts.Instance, 0, len(a.gathering))
	for _, in := range a.gathering {
		list = append(list, in)
	}
	a.gathering, a.ended = nil, false
	return list
}

// read tells of a reading of the whole that was committed: events up to its index are old.
func (a *applier) read(index uint64) { a.floor = max(a.floor, index) }
