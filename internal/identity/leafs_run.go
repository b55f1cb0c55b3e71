package identity

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/catenary-mesh/catenary/internal/facts"
)

const (
	// orders is how many orders there are at once.
	orders = 4
	// gather is what is waited before it is looked again what has changed, so that a lone change counts at
	// once and a fleet that arrives is taken together.
	gather = 20 * time.Millisecond
	// idle is for how long nothing happens when nothing is to come.
	idle = time.Hour
)

// Run orders certificates and commits to the store what may be known of them, until ctx ends; then it
// returns nil, and nothing that it started goes on.
func (l *Leafs) Run(ctx context.Context, store *facts.Store) error {
	datacenter, err := l.cfg.Datacenter(ctx)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	interval := time.Second / time.Duration(l.cfg.Rate)
	k := &keeper{
		Leafs: l, store: store, datacenter: datacenter,
		kept: map[facts.Topic]*kept{}, results: make(chan result, orders),
		pace: pace{least: interval, interval: interval},
	}
	var group sync.WaitGroup
	defer group.Wait()
	k.start = func(order func(context.Context)) { group.Go(func() { order(ctx) }) }
	k.run(ctx)
	return nil
}

// keeper is a run of [Leafs]: all but what others look at, and for one goroutine.
type keeper struct {
	*Leafs
	store      *facts.Store
	datacenter string
	start      func(order func(context.Context)) // on a goroutine that Run waits for

	kept      map[facts.Topic]*kept
	authority *authority // nil while the roots are not known
	results   chan result
	running   int
	pace      pace
	pause     pause
}

func (k *keeper) run(ctx context.Context) {
	needs, hangUp := k.store.NeedsBell()
	defer hangUp()
	changes := k.store.Subscribe()
	defer changes.Close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	k.trust(k.store.View(), time.Now())
	k.tell()
	k.follow(time.Now())
	var quiet time.Time // when the needs are looked at again
	asked := false
	for {
		now := time.Now()
		if asked && !now.Before(quiet) {
			asked, quiet = false, now.Add(gather)
			k.follow(now)
		}
		next := k.advance(now)
		if asked {
			next = earliest(next, quiet)
		}
		timer.Reset(time.Until(next))
		select {
		case <-ctx.Done():
			return
		case <-needs:
			asked = true
		case <-changes.Bell():
			k.changed(changes.Drain())
		case <-k.renew:
			k.renewAll(time.Now())
		case r := <-k.results:
			k.running--
			k.settle(r, time.Now())
		case <-timer.C:
		}
	}
}

// follow takes over which certificates are needed, and forgets those that have lingered.
func (k *keeper) follow(now time.Time) {
	needed := map[facts.Topic]bool{}
	topics, _ := k.store.Needs()
	for _, t := range topics {
		if t.Kind != facts.TopicLeaf {
			continue
		}
		needed[t] = true
		if k.kept[t] == nil {
			k.kept[t] = &kept{topic: t, due: now}
		}
	}
	for t, one := range k.kept {
		switch {
		case needed[t]:
			one.until = time.Time{}
		case one.until.IsZero():
			one.until = now.Add(k.cfg.Linger)
		}
	}
	k.excuse()
}

// excuse says of services without a certificate that none is issued now.
func (k *keeper) excuse() {
	if k.pause.reason == "" {
		return
	}
	k.store.Commit(func(tx *facts.Tx) {
		for t, one := range k.kept {
			if one.now == nil && one.failure != k.pause.reason {
				one.failure = k.pause.reason
				tx.Fail(t, one.failure)
			}
		}
	})
}

// forget drops the certificates that nothing has needed for a while: the fact first, and then the key.
func (k *keeper) forget(now time.Time) {
	var over []facts.Topic
	for t, one := range k.kept {
		if !one.until.IsZero() && !now.Before(one.until) {
			over = append(over, t)
		}
		if !one.trim.IsZero() && !now.Before(one.trim) {
			k.trim(t.Name, now)
			one.trim = time.Time{}
		}
	}
	if len(over) == 0 {
		return
	}
	k.store.Commit(func(tx *facts.Tx) {
		for _, t := range over {
			tx.Forget(t)
		}
	})
	for _, t := range over {
		delete(k.kept, t)
		k.drop(t.Name)
	}
	k.tell()
}

// changed takes over other roots.
func (k *keeper) changed(view facts.View, ids []facts.ID) {
	for _, id := range ids {
		if id.Topic.Kind == facts.TopicRoots {
			k.trust(view, time.Now())
			return
		}
	}
}

// trust takes over the roots. Whoever has a certificate of a root that does not sign any more gets another,
// at some time within the spread; what waited for its root need not wait any more.
func (k *keeper) trust(view facts.View, now time.Time) {
	roots, state := view.Roots()
	if state != facts.Present {
		return
	}
	next, err := parseRoots(roots)
	if err != nil {
		k.log.Warn("some roots of the mesh cannot be read, and certificates under them are not taken", "reason", err)
	}
	if len(next.roots) == 0 {
		return
	}
	before := k.authority
	k.authority = next
	rotated := 0
	for _, one := range k.kept {
		if one.waiting != nil {
			k.admit(one, *one.waiting, now)
		}
		if k.retrust(one, now) {
			rotated++
		}
	}
	if rotated > 0 && before != nil {
		k.log.Info("another root signs now: certificates are renewed", "root", next.active, "certificates", rotated, "within", k.cfg.Spread.String())
	}
}

// retrust looks at a certificate by other roots, and reports whether it is renewed for their sake.
func (k *keeper) retrust(one *kept, now time.Time) bool {
	if one.now == nil {
		return false
	}
	foreign := one.now.fact.URI != k.uri(one.now.fact.Service) // of the trust domain from before
	root, ok := k.authority.rootOf(one.now.certs)
	switch {
	case foreign || !ok: // nobody believes it any more
		one.due = now
		return true
	case root != one.now.fact.Root:
		one.now.fact.Root = root
		k.commit(one)
	}
	if root == k.authority.active || k.authority.active == "" || one.rotating == k.authority.active {
		return false
	}
	one.rotating, one.repeats = k.authority.active, 0
	one.due = earliest(one.due, now.Add(rand.N(k.cfg.Spread)))
	return true
}

// renewAll spreads the renewal of all.
func (k *keeper) renewAll(now time.Time) {
	for _, one := range k.kept {
		one.due = earliest(one.due, now.Add(rand.N(k.cfg.Spread)))
	}
	k.log.Info("all certificates are ordered anew", "certificates", len(k.kept), "within", k.cfg.Spread.String())
}

// advance does what is due, and returns when to be called again at the latest.
func (k *keeper) advance(now time.Time) time.Time {
	k.forget(now)
	k.expire(now)
	next := now.Add(idle)
	for {
		one, wake := k.urgent(now)
		if one == nil {
			return earliest(next, wake)
		}
		if at := latest(k.pause.until, k.pace.at(now)); at.After(now) {
			return earliest(earliest(next, wake), at)
		}
		k.pace.take(now)
		k.order(one)
	}
}

// urgent returns what is to be ordered next, those without a certificate first, or when there may be
// something.
func (k *keeper) urgent(now time.Time) (best *kept, wake time.Time) {
	wake = now.Add(idle)
	free := k.running < orders && k.authority != nil
	for _, one := range k.kept {
		for _, at := range []time.Time{one.until, one.trim} {
			if !at.IsZero() {
				wake = earliest(wake, at)
			}
		}
		if one.now != nil && !one.alarmed {
			wake = earliest(wake, one.now.alarm)
		}
		switch {
		case one.busy || !free: // a result, or a fact, wakes
		case one.due.After(now):
			wake = earliest(wake, one.due)
		case best == nil || one.before(best):
			best = one
		}
	}
	return best, wake
}

// uri is the identity of a service.
func (k *keeper) uri(service string) string {
	return spiffeID(k.authority.domain, strings.ToLower(k.datacenter), service)
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
