package snapshot

import (
	"reflect"
	"strconv"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// clientEntry is a client in the cache: which upstreams it has, and the plan put together of theirs.
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

// listEntry is a list of upstreams that some clients have, in the cache.
type listEntry struct {
	key       string
	upstreams []*upstreamEntry
	clients   map[*clientEntry]struct{}
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

// replan finds out which upstreams a client has.
func (u *update) replan(e *clientEntry) {
	r := u.view.Read()
	s := &selector{cfg: u.cfg, r: r}
	keys := s.upstreams(e.client)
	u.counts.Plans++
	e.reads = u.reread(e, e.reads, r.Reads())
	e.kind, e.hold, e.unregistered, e.own = s.kind, s.hold, s.unregistered, s.needs
	if e.hold == "" && e.unregistered == "" {
		u.use(e, u.listOf(keys))
	} // else it keeps those it has, if any
	u.loose[e] = struct{}{}
}

// listOf returns the list of the upstreams.
func (u *update) listOf(keys []UpstreamKey) *listEntry {
	upstreams := make([]*upstreamEntry, 0, len(keys))
	name := make([]byte, 0, 4*len(keys))
	for _, key := range keys {
		up := u.upstream(key)
		upstreams = append(upstreams, up)
		name = append(strconv.AppendUint(name, up.id, 36), ' ')
	}
	l, ok := u.lists[string(name)]
	if !ok {
		l = &listEntry{key: string(name), upstreams: upstreams, clients: map[*clientEntry]struct{}{}}
		u.lists[l.key] = l
		for _, up := range upstreams {
			up.lists[l] = struct{}{}
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
		next.Hold = holdReason(next.Upstreams)
	case anyServed(next.Upstreams):
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

// selectionOf returns what a client gets. Clients with the same upstreams get the same, unless one had
// something before of an upstream that is not known well enough now.
func (u *update) selectionOf(e *clientEntry) *selectionEntry {
	key := make([]byte, 0, 8*len(e.list.upstreams))
	lacking := false
	for _, up := range e.list.upstreams {
		key = append(strconv.AppendUint(key, up.version, 36), ' ')
		lacking = lacking || up.plan.lacking()
	}
	var had map[upstreamID]*UpstreamPlan
	shared := true
	if lacking {
		had = e.plan.served()
		for _, up := range e.list.upstreams {
			shared = shared && !(up.plan.lacking() && had[up.plan.id()] != nil)
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

// upstreamID tells the upstreams of a client apart.
type upstreamID struct{ name, bind string }

func (u *UpstreamPlan) id() upstreamID { return upstreamID{u.Name, u.Bind} }

// served are the upstreams of which a client has something.
func (p *Plan) served() map[upstreamID]*UpstreamPlan {
	had := map[upstreamID]*UpstreamPlan{}
	for _, u := range p.Upstreams {
		if len(u.Resources) > 0 {
			had[u.id()] = u
		}
	}
	return had
}

// compose makes the selection of a list for a client that had something of some upstreams. It leaves the
// client what it had of those that are not known well enough now, and goes on following that.
func (l *listEntry) compose(had map[upstreamID]*UpstreamPlan) *Selection {
	s := &Selection{}
	var needs [][]facts.Topic
	for _, up := range l.upstreams {
		own := up.plan
		if before := had[own.id()]; before != nil && own.lacking() {
			kept := *own
			keepLastGood(&kept, before)
			own = &kept
		}
		s.Upstreams = append(s.Upstreams, own)
		needs = append(needs, own.needs)
	}
	s.Needs = union(needs...)
	s.collect()
	return s
}

func anyServed(upstreams []*UpstreamPlan) bool {
	for _, u := range upstreams {
		if len(u.Resources) > 0 {
			return true
		}
	}
	return false
}
