package session

import (
	"slices"
	"strings"
	"time"
)

// verdict is what a turn does about one name.
type verdict uint8

const (
	// nothing: the client has what it may have.
	nothing verdict = iota
	// send the resource.
	send
	// absent: say that the name does not exist.
	absent
	// remove what the client holds.
	remove
	// park: say nothing until more is known.
	park
	// wait until the clusters it refers to have gone first.
	wait
)

// wildcard returns what a wildcard subscription to the type stands for.
func (t *turn) wildcard(sub *subscription) []string {
	n := &t.names[sub.t.rank]
	if !n.read {
		n.names, n.read = t.offer.Names(sub.t), true
	}
	return n.names
}

// target returns what the client is to have of a name.
func (t *turn) target(sub *subscription, name string) (*Resource, State) {
	if sub.t.vacant {
		return nil, Absent
	}
	if _, named := sub.named[name]; !named {
		if !sub.wildcard {
			return nil, Absent
		}
		if _, ok := slices.BinarySearch(t.wildcard(sub), name); !ok {
			return nil, Absent
		}
	}
	r, state := t.offer.Lookup(sub.t, name)
	if state == Present && r == nil {
		state = Unknown
	}
	return r, state
}

// judge decides about a name; force says that the client is to hear of it even if nothing changed.
func (t *turn) judge(sub *subscription, name string, force bool) (verdict, *Resource) {
	r, state := t.target(sub, name)
	switch state {
	case Present:
		return t.judgePresent(sub, r, force)
	case Absent:
		return t.judgeAbsent(sub, name, force), nil
	case Unknown:
	}
	return park, nil
}

func (t *turn) judgePresent(sub *subscription, r *Resource, force bool) (verdict, *Resource) {
	held := sub.held.entries[r.Name]
	if refused, ok := sub.rejected[r.Name]; ok && refused.version == r.Version {
		if refused.retry {
			sub.queueRetry(r.Name) // it may have been unknown when its turn came
		}
		if !force || held.accepted() == nil {
			return nothing, nil
		}
		// The client wants to hear of the name and is known to refuse what there is.
		r = held.accepted()
	}
	if held.is(r.Version) {
		if force {
			return send, r
		}
		t.resume(sub, r)
		sub.held.share(r)
		sub.adopt(r.Name)
		return nothing, nil
	}
	if blocked, until := t.blocked(sub, r); blocked {
		t.wakeAt(until)
		return wait, nil
	}
	if r != held.accepted() {
		delete(sub.rejected, r.Name)
	}
	return send, r
}

func (t *turn) judgeAbsent(sub *subscription, name string, force bool) verdict {
	held := sub.held.entries[name]
	holds := held.holds()
	if holds && !t.complete {
		return park
	}
	delete(sub.rejected, name)
	_, named := sub.named[name]
	switch {
	case holds:
		return remove
	case force || (named && held == nil):
		return absent
	}
	return nothing
}

// blocked reports whether a resource must wait for clusters it refers to: without limit for those
// that are still to be sent, and until a time for those that the client has yet to accept, or for
// whose endpoints it has yet to ask: a cluster takes no traffic before it has them. However often they
// change, the wait is no longer than for one of them.
func (t *turn) blocked(sub *subscription, r *Resource) (bool, time.Time) {
	if !r.Type.awaits || !t.s.ordered() {
		return false, time.Time{}
	}
	clusters := t.s.subs[clusterType.rank]
	latest := time.Time{}
	for _, ref := range r.Refs {
		since := time.Time{}
		switch {
		case t.owed(clusters, ref):
			return true, time.Time{}
		case clusters.brings(ref):
			since = clusters.flight.at
		case t.cold(clusters, ref):
			since = clusters.record.ackedAt
		}
		if until := since.Add(t.s.cfg.ClusterAckWait); !since.IsZero() && until.After(latest) {
			latest = until
		}
	}
	if !t.now.Before(latest) {
		return false, time.Time{}
	}
	if until := sub.since(r, t.now).Add(t.s.cfg.ClusterAckWait); until.Before(latest) {
		latest = until
	}
	return t.now.Before(latest), latest
}

// brings reports whether something new of a name is on the wire.
func (sub *subscription) brings(name string) bool {
	r := sub.flight.put(name)
	return r != nil && !sub.held.entries[name].is(r.Version)
}

// cold reports whether the client accepted a cluster on this stream and there are endpoints of it that
// were not sent yet.
func (t *turn) cold(clusters *subscription, name string) bool {
	r := clusters.held.entries[name].accepted()
	if r == nil {
		return false
	}
	endpoints := t.s.subs[endpointType.rank]
	return slices.ContainsFunc(r.Refs, func(ref string) bool {
		if e := endpoints.held.entries[ref]; (e != nil && e.version != "") || endpoints.flight.put(ref) != nil {
			return false
		}
		_, state := t.offer.Lookup(endpointType, ref)
		return state == Present
	})
}

// overdue is 1 when a resource goes before the client accepted a cluster it refers to.
func (t *turn) overdue(sub *subscription, r *Resource) int {
	clusters := t.s.subs[clusterType.rank]
	isNew := !sub.held.entries[r.Name].is(r.Version)
	if isNew && sub.t.awaits && t.s.ordered() && slices.ContainsFunc(r.Refs, func(ref string) bool {
		return clusters.brings(ref)
	}) {
		return 1
	}
	return 0
}

// owed reports whether a resource is still to be sent: it is noted, differs from what the client has
// and what is on the wire, and was not refused.
func (t *turn) owed(sub *subscription, name string) bool {
	if _, noted := sub.dirty[name]; !noted && !sub.all {
		return false
	}
	r, state := t.target(sub, name)
	if state != Present || sub.rejected[name].version == r.Version {
		return false
	}
	if on := sub.flight.put(name); on != nil {
		return on.Version != r.Version
	}
	return !sub.held.entries[name].is(r.Version)
}

// retry returns one resource that was refused together with others, to be tried alone.
func (t *turn) retry(sub *subscription) []*Resource {
	for ; len(sub.retries) > 0; sub.retries = sub.retries[1:] {
		name := sub.retries[0]
		refused := sub.rejected[name]
		r, state := t.target(sub, name)
		if !refused.retry || state != Present || r.Version != refused.version {
			continue
		}
		if blocked, until := t.blocked(sub, r); blocked {
			t.wakeAt(until)
			return nil
		}
		refused.retry = false
		sub.rejected[name] = refused
		sub.retries = sub.retries[1:]
		return []*Resource{r}
	}
	return nil
}

func sortByName(list []*Resource) {
	slices.SortFunc(list, func(a, b *Resource) int { return strings.Compare(a.Name, b.Name) })
}
