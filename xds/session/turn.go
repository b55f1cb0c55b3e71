package session

import (
	"slices"
	"strconv"
	"time"
)

// turn is one look at the offer.
type turn struct {
	s        *Session
	now      time.Time
	offer    Offer
	complete bool
	names    [numTypes]struct {
		names []string
		read  bool
	}

	out  []Response
	wake time.Time
}

// Turn returns what to write now, in order, and when to call again at the latest; a zero time asks
// for no timer. It costs as much as was noted since the last turn, not as much as the client holds,
// but for what DirtyAll, a first subscription and the full sets of the state of the world demand.
func (s *Session) Turn(now time.Time, o Offer) ([]Response, time.Time) {
	t := turn{s: s, now: now, offer: o, complete: o.Complete()}
	if t.complete && !s.complete {
		for _, sub := range s.asked {
			sub.unpark()
		}
	}
	s.complete = t.complete
	for _, sub := range s.asked {
		t.update(sub)
	}
	for _, sub := range slices.Backward(s.asked) {
		t.remove(sub)
	}
	t.wakeAt(s.Deadline())
	return t.out, t.wake
}

func (t *turn) wakeAt(at time.Time) {
	if at.After(t.now) && (t.wake.IsZero() || at.Before(t.wake)) {
		t.wake = at
	}
}

// update sends what is new or changed of a type, and what can be said to be absent.
func (t *turn) update(sub *subscription) {
	if sub.flight != nil || (sub.luggage != nil && sub.wildcard && !t.complete) {
		return
	}
	var names []string
	if sub.all && sub.wildcard {
		names = t.wildcard(sub)
	}
	var b batch
	var buf [4]string
	todo, waiting := sub.take(names, buf[:0]), false
	for _, name := range todo {
		force := sub.forced(name)
		verdict, r := t.judge(sub, name, force)
		if verdict != remove {
			delete(sub.leaving, name)
		}
		if verdict != wait && verdict != send { // a full set may have to wait for others
			delete(sub.waits, name)
		}
		switch verdict {
		case nothing:
		case send:
			b.puts = append(b.puts, r)
			b.overdue += t.overdue(sub, r)
		case absent:
			b.gone = append(b.gone, name)
		case remove:
			t.part(sub, name, &b)
		case park:
			sub.park(name, force)
		case wait:
			waiting = true
			sub.mark(name, force)
		}
	}
	sub.tidy(len(todo))
	t.renew(sub, &b)
	if sub.luggage != nil && (waiting || t.loses(sub, &b)) {
		b.markAll(sub)
		return
	}
	if !b.empty() || (sub.answer && !waiting && len(sub.leaving) == 0) {
		t.send(sub, &b)
	}
	t.tryAlone(sub)
}

// loses reports whether a full set could take away what the client holds of an earlier stream, and what may exist.
func (t *turn) loses(sub *subscription, b *batch) bool {
	if t.complete || sub.held.after(b).String() == sub.luggage.version {
		return false
	}
	return slices.ContainsFunc(sub.luggage.names, func(name string) bool {
		_, state := t.offer.Lookup(sub.t, name)
		return state == Unknown && sub.subscribed(name)
	})
}

// tryAlone sends a resource that was refused together with others, where nothing else was to be said.
func (t *turn) tryAlone(sub *subscription) {
	if sub.flight != nil || sub.answer {
		return
	}
	if alone := t.retry(sub); len(alone) > 0 {
		t.send(sub, &batch{puts: alone})
	}
}

// part takes a name away from the client: at once when nothing of its kind is in the way, or else
// when [turn.remove] finds that nothing uses it any more.
func (t *turn) part(sub *subscription, name string, b *batch) {
	switch {
	case len(sub.t.after) == 0:
		b.gone = append(b.gone, name)
	case t.s.ordered():
		sub.leave(name, t.now.Add(t.s.cfg.ClusterAckWait))
	default:
		sub.leave(name, t.now)
	}
}

// ordered reports whether updates of this stream wait for each other: only where the client leaves
// the choice of clusters to us, and has all types on it.
func (s *Session) ordered() bool { return s.cfg.Only == nil && s.subs[clusterType.rank].wildcard }

// remove takes away what nothing uses any more.
func (t *turn) remove(sub *subscription) {
	if sub.flight != nil || len(sub.leaving) == 0 || !t.complete {
		return
	}
	busy, unasked := false, false
	for _, other := range sub.t.after {
		o := t.s.subs[other.rank]
		busy = busy || o.busy() || len(o.leaving) > 0
		unasked = unasked || !o.asked
	}
	var b batch
	for name, latest := range sub.leaving {
		switch {
		case t.used(sub.t, name):
			sub.leaving[name] = t.now.Add(t.s.cfg.ClusterAckWait)
		case (busy || (unasked && sub.held.entries[name].accepted() == nil)) && t.now.Before(latest):
			// A client that comes back with the name may hold something that needs it, which it has
			// yet to ask for on this stream.
			t.wakeAt(latest)
		default:
			b.gone = append(b.gone, name)
		}
	}
	if b.empty() && !sub.answer {
		return
	}
	for _, name := range b.gone {
		delete(sub.leaving, name)
	}
	slices.Sort(b.gone)
	t.send(sub, &b)
}

// used reports whether something that the client has refers to the name, and leaves itself, or is still
// to be replaced, or stays in force because the client refused what would replace it.
func (t *turn) used(typ *Type, name string) bool {
	for _, referrer := range typ.referrers {
		sub := t.s.subs[referrer.rank]
		holds := func(holder string) bool { return t.outlives(sub, holder, name) }
		if anyKey(sub.leaving, holds) || anyKey(sub.rejected, holds) || anyKey(sub.dirty, holds) ||
			sub.all && anyKey(sub.held.entries, holds) {
			return true
		}
	}
	return false
}

func anyKey[V any](m map[string]V, f func(string) bool) bool {
	for key := range m {
		if f(key) {
			return true
		}
	}
	return false
}

// outlives reports whether what the client has under a name refers to another, or may do so, and what it
// is offered does not.
func (t *turn) outlives(sub *subscription, holder, name string) bool {
	held := sub.held.entries[holder]
	brought := held.certain() && held.accepted() == nil // of an earlier stream: nobody knows what it refers to
	if !brought && !held.accepted().refersTo(name) && !sub.flight.put(holder).refersTo(name) {
		return false
	}
	r, state := t.target(sub, holder)
	return state != Present || !r.refersTo(name)
}

// send puts a batch on the wire, or settles it at once when there is nothing to say.
func (t *turn) send(sub *subscription, b *batch) {
	for _, r := range b.puts {
		if sub.waits[r.Name].version == r.Version {
			delete(sub.waits, r.Name)
		}
	}
	f := &flight{batch: *b, version: sub.held.after(b).String(), at: t.now}
	claim := sub.claim
	sub.claim, sub.answer, sub.luggage = "", false, nil
	if claim == f.version {
		sub.accept(b)
		for _, r := range b.puts {
			t.resume(sub, r)
		}
		sub.record.versionAcked = claim
		return
	}
	r := Response{
		Type: sub.t, Version: f.version, Heartbeats: b.beats, Overdue: b.overdue,
		form: t.s.cfg.Form, leases: t.s.client.leases, controlPlane: t.s.cfg.ControlPlane,
	}
	switch {
	case t.s.cfg.Form == Delta:
		r.Resources, r.Removed = b.puts, b.gone
	case sub.t.full:
		r.Resources = sub.world(b)
	default:
		r.Resources = sub.partial(b)
		if len(r.Resources)+len(r.Heartbeats) == 0 {
			sub.accept(b)
			return
		}
	}
	t.s.nonces++
	r.Nonce = strconv.FormatUint(t.s.nonces, 10)
	sub.flight, sub.nonce = f, r.Nonce
	sub.record.sent(f, len(r.Resources))
	t.let(sub, r.Resources)
	t.let(sub, r.Heartbeats)
	t.out = append(t.out, r)
	if sub.t == clusterType {
		t.s.warm(b.puts)
	}
}

// world returns all that the client holds once it accepts the batch.
func (sub *subscription) world(b *batch) []*Resource {
	all := make([]*Resource, 0, len(sub.held.entries)+len(b.puts))
	all = append(all, b.puts...)
	for name, e := range sub.held.entries {
		if _, gone := slices.BinarySearch(b.gone, name); e.resource != nil && !gone && b.put(name) == nil {
			all = append(all, e.resource)
		}
	}
	sortByName(all)
	return all
}

// partial returns what a state-of-the-world client is told of a type whose responses need not hold
// everything: absence has a body, or goes unsaid.
func (sub *subscription) partial(b *batch) []*Resource {
	if sub.t.empty == nil || len(b.gone) == 0 {
		return b.puts
	}
	all := make([]*Resource, 0, len(b.puts)+len(b.gone))
	all = append(all, b.puts...)
	for _, name := range b.gone {
		all = append(all, newResource(sub.t, name, "", sub.t.empty(name), nil))
	}
	sortByName(all)
	return all
}
