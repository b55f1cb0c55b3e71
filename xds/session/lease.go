package session

import "time"

// lease is a resource with a TTL that was sent to a client which supports it.
type lease struct {
	// renew is when the client is to hear of it again, and expires when it drops it otherwise.
	renew, expires time.Time
}

func (sub *subscription) lease(r *Resource, renew, expires time.Time) {
	if sub.leases == nil {
		sub.leases = map[string]lease{}
	}
	sub.leases[r.Name] = lease{renew: renew, expires: expires}
}

// let begins the leases of what is sent, and has the caller wake to renew them.
func (t *turn) let(sub *subscription, sent []*Resource) {
	if !t.s.client.leases {
		return
	}
	for _, r := range sent {
		if r.TTL > 0 {
			sub.lease(r, t.now.Add(r.TTL/2), t.now.Add(r.TTL))
			t.wakeAt(t.now.Add(r.TTL / 2))
		}
	}
}

// resume begins the lease of what the client brought along from an earlier stream: nobody knows when it
// ends, so that it is renewed at once.
func (t *turn) resume(sub *subscription, r *Resource) {
	if _, ok := sub.leases[r.Name]; !ok && r.TTL > 0 && t.s.client.leases {
		sub.lease(r, t.now, t.now.Add(r.TTL))
	}
}

// renew adds to the batch what the client would drop if it heard nothing of it: a heartbeat where that
// is understood, the resource otherwise.
func (t *turn) renew(sub *subscription, b *batch) {
	if len(sub.leases) == 0 {
		return
	}
	var again []*Resource
	quiet := t.s.quiet(sub, b)
	for name, l := range sub.leases {
		r, certain := t.leased(sub, name)
		switch {
		case r == nil:
			delete(sub.leases, name)
		case t.now.Before(l.renew):
			t.wakeAt(l.renew)
		case b.has(name):
		case quiet && certain && t.now.Before(l.expires):
			b.beats = append(b.beats, r)
		default:
			again = append(again, r)
		}
	}
	b.puts = append(b.puts, again...)
	sortByName(b.puts)
	sortByName(b.beats)
}

// quiet reports whether a client understands heartbeats beside the batch. In the state of the world it
// compares their version with the version of what it accepted last, and full sets have none: what they
// hold without a body would be removed.
func (s *Session) quiet(sub *subscription, b *batch) bool {
	if s.cfg.Form == Delta {
		return true
	}
	return !sub.t.full && b.empty() && sub.held.sum.String() == sub.record.versionAcked
}

// leased returns the resource with a TTL that the client holds, and whether it is certain to.
func (t *turn) leased(sub *subscription, name string) (r *Resource, certain bool) {
	e := sub.held.entries[name]
	if r = e.accepted(); r == nil && e.certain() {
		if r, _ = t.target(sub, name); r != nil && !e.is(r.Version) {
			r = nil
		}
	}
	if r == nil || r.TTL <= 0 {
		return nil, false
	}
	return r, e.is(r.Version)
}

// hurry has a resource with a TTL renewed at once, after it was refused what would replace it.
func (sub *subscription) hurry(name string, now time.Time) {
	if l, ok := sub.leases[name]; ok {
		sub.leases[name] = lease{renew: now, expires: l.expires}
	}
}
