package snapshot

import (
	"reflect"
	"strconv"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// clientEntry is a client in the cache: which parts its plan has, and the plan put together of them.
type clientEntry struct {
	id     string
	client Client
	reads  []*fact

	kind               Kind
	hold, unregistered string
	own                []facts.Topic
	list               *listEntry

	selection *selectionEntry
	plan      *Plan
}

func (e *clientEntry) stale(u *update) { u.staleClients[e] = struct{}{} }

// listEntry is a list of parts that some clients have, in the cache.
type listEntry struct {
	key     string
	parts   []*partEntry
	clients map[*clientEntry]struct{}
}

// selectionEntry is a selection in the cache.
type selectionEntry struct {
	key string
	*Selection
	refs int // clients that have it
}

// newClient returns a client that has nothing yet.
func newClient(id string) *clientEntry {
	nothing := &selectionEntry{Selection: &Selection{}, refs: 1}
	return &clientEntry{
		id: id, list: &listEntry{clients: map[*clientEntry]struct{}{}},
		selection: nothing, plan: &Plan{Selection: nothing.Selection},
	}
}

// replan finds out which parts the plan of a client has.
func (u *update) replan(e *clientEntry) {
	r := u.view.Read()
	s := &selector{cfg: u.cfg, r: r}
	keys := s.parts(e.client)
	u.counts.Plans++
	e.reads = u.reread(e, e.reads, r.Reads())
	e.kind, e.hold, e.unregistered, e.own = s.kind, s.hold, s.unregistered, s.needs
	if e.hold == "" && e.unregistered == "" {
		u.use(e, u.listOf(keys))
	} // else it keeps those it has, if any
	u.loose[e] = struct{}{}
}

// listOf returns the list of the parts.
func (u *update) listOf(keys []PartKey) *listEntry {
	parts := make([]*partEntry, 0, len(keys))
	name := make([]byte, 0, 4*len(keys))
	for _, key := range keys {
		part := u.part(key)
		parts = append(parts, part)
		name = append(strconv.AppendUint(name, part.id, 36), ' ')
	}
	l, ok := u.lists[string(name)]
	if !ok {
		l = &listEntry{key: string(name), parts: parts, clients: map[*clientEntry]struct{}{}}
		u.lists[l.key] = l
		for _, part := range parts {
			part.lists[l] = struct{}{}
		}
	}
	return l
}

// compose puts the plan of a client together.
func (u *update) compose(e *clientEntry) {
	next := &Plan{Kind: e.kind, Hold: e.hold, Unregistered: e.unregistered, Own: e.own}
	selection := u.selectionOf(e)
	next.Selection = selection.Selection
	switch {
	case next.Hold == "" && next.Unregistered == "":
		next.Hold = holdReason(next.Parts)
	case anyServed(next.Parts):
		next.Hold = "" // what it has may go on changing
	}
	if selection != e.selection {
		u.acquire(selection)
		u.release(e.selection)
		e.selection = selection
	}
	if !samePlan(next, e.plan) {
		e.plan = next
		u.delta.Plans[e.id] = next
	}
}

func samePlan(a, b *Plan) bool {
	return a.Selection == b.Selection && a.Kind == b.Kind && a.Hold == b.Hold && a.Unregistered == b.Unregistered
}

// selectionOf returns what a client gets. Clients with the same parts get the same, unless one had
// something before of a part that is not known well enough now.
func (u *update) selectionOf(e *clientEntry) *selectionEntry {
	key := make([]byte, 0, 8*len(e.list.parts))
	lacking := false
	for _, up := range e.list.parts {
		key = append(strconv.AppendUint(key, up.version, 36), ' ')
		lacking = lacking || up.part.lacking()
	}
	var had map[partID]*Part
	shared := true
	if lacking {
		had = e.plan.served()
		for _, up := range e.list.parts {
			shared = shared && !(up.part.lacking() && had[up.part.id()] != nil)
		}
	}
	if known, ok := u.selections[string(key)]; ok && shared {
		return known
	}
	next := &selectionEntry{key: string(key), Selection: e.list.compose(had)}
	if reflect.DeepEqual(next.Selection, e.selection.Selection) {
		return e.selection
	}
	if shared {
		u.selections[next.key] = next
	}
	return next
}

// partID tells the parts of a plan apart.
type partID struct{ name, bind string }

func (p *Part) id() partID { return partID{p.Name, p.Bind} }

// served are the parts of which a client has something.
func (p *Plan) served() map[partID]*Part {
	had := map[partID]*Part{}
	for _, u := range p.Parts {
		if len(u.Resources) > 0 {
			had[u.id()] = u
		}
	}
	return had
}

// compose makes the selection of a list for a client that had something of some parts. It leaves the
// client what it had of those that are not known well enough now, and goes on following that.
func (l *listEntry) compose(had map[partID]*Part) *Selection {
	s := &Selection{}
	var needs [][]facts.Topic
	for _, up := range l.parts {
		own := up.part
		if before := had[own.id()]; before != nil && own.lacking() {
			kept := *own
			keepLastGood(&kept, before)
			own = &kept
		}
		s.Parts = append(s.Parts, own)
		needs = append(needs, own.needs)
	}
	s.Needs = union(needs...)
	s.collect()
	return s
}

func anyServed(parts []*Part) bool {
	for _, u := range parts {
		if len(u.Resources) > 0 {
			return true
		}
	}
	return false
}
