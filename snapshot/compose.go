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
	reads  map[facts.ID]struct{}

	kind               Kind
	hold, unregistered string
	needs              []facts.Topic
	upstreams          []*upstreamEntry

	plan *planEntry
}

func (e *clientEntry) stale(u *update) { u.staleClients[e] = struct{}{} }

// planEntry is a plan in the cache.
type planEntry struct {
	key  string
	plan *Plan
	refs int // clients that have it
}

// nothingPlanned is what a client has before it is planned.
func nothingPlanned() *planEntry { return &planEntry{plan: &Plan{}, refs: 1} }

// replan finds out which upstreams a client has.
func (u *update) replan(e *clientEntry) {
	r := u.view.Read()
	s := &selector{cfg: u.cfg, r: r}
	keys := s.upstreams(e.client)
	u.counts.Plans++
	u.reread(e, e.reads, r.Reads())
	e.reads = r.Reads()
	e.kind, e.hold, e.unregistered, e.needs = s.kind, s.hold, s.unregistered, s.needs
	if e.hold == "" && e.unregistered == "" {
		next := make([]*upstreamEntry, 0, len(keys))
		for _, key := range keys {
			next = append(next, u.upstream(key))
		}
		u.use(e, next)
	} // else it keeps those it has, if any
	u.loose[e] = struct{}{}
}

// compose puts the plan of a client together. Clients of equal upstreams get the same.
func (u *update) compose(e *clientEntry) {
	last := e.plan
	key := e.composition()
	next, ok := u.plans[key]
	if !ok {
		next = &planEntry{key: key, plan: e.compose(last.plan)}
		if reflect.DeepEqual(next.plan, last.plan) {
			return
		}
		if key != "" {
			u.plans[key] = next
		}
	}
	if next == last {
		return
	}
	u.acquire(next)
	u.release(last)
	e.plan = next
	u.delta.Plans[e.id] = next.plan
}

// composition is everything a plan is made of; empty when it is also made of what the client had
// before, so that it cannot be shared.
func (e *clientEntry) composition() string {
	if e.hold != "" || e.unregistered != "" {
		return ""
	}
	key := append(make([]byte, 0, 16+8*len(e.upstreams)), e.kind...)
	for _, topic := range e.needs {
		key = append(key, ' ')
		key = append(key, topic.String()...)
	}
	for _, up := range e.upstreams {
		if up.plan.Pending != "" && len(up.plan.Resources) == 0 {
			return ""
		}
		key = append(key, ' ')
		key = strconv.AppendUint(key, up.id, 36)
	}
	return string(key)
}

// compose makes the plan of a client. It leaves the client what it had of upstreams that are not known
// well enough now, and everything if the client itself is not. What is kept is still followed.
func (e *clientEntry) compose(last *Plan) *Plan {
	plan := &Plan{Kind: e.kind, Hold: e.hold, Unregistered: e.unregistered}
	needs := [][]facts.Topic{e.needs}
	had := map[[2]string]*UpstreamPlan{}
	for _, u := range last.Upstreams {
		had[[2]string{u.Name, u.Bind}] = u
	}
	for _, up := range e.upstreams {
		own := up.plan
		if before := had[[2]string{own.Name, own.Bind}]; before != nil && len(own.Resources) == 0 {
			kept := *own
			keepLastGood(&kept, before)
			own = &kept
		}
		plan.Upstreams = append(plan.Upstreams, own)
		needs = append(needs, own.needs)
	}
	switch {
	case plan.Hold == "" && plan.Unregistered == "":
		if !anyServed(plan.Upstreams) {
			plan.Hold = holdReason(plan.Upstreams)
		}
	case anyServed(plan.Upstreams):
		plan.Hold = "" // what it has may go on changing
	}
	plan.Needs = union(needs...)
	plan.collect()
	return plan
}

func anyServed(upstreams []*UpstreamPlan) bool {
	for _, u := range upstreams {
		if len(u.Resources) > 0 {
			return true
		}
	}
	return false
}
