package identity

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// tick is how often it is looked what has grown old.
const tick = time.Second

// Run asks Consul what streams and plans want to know, and commits to the store which services may be
// read, until ctx ends; then it returns nil, and nothing that it started goes on.
func (v *Verdicts) Run(ctx context.Context, store *facts.Store) error {
	var group sync.WaitGroup
	defer group.Wait()
	defer func() { // the workers see that ctx has ended
		v.mu.Lock()
		defer v.mu.Unlock()
		v.work.Broadcast()
	}()
	for range workers {
		group.Go(func() { v.worker(ctx, store) })
	}
	group.Go(func() { v.watchACLs(ctx, store) })
	needs, hangUp := store.RightsBell()
	defer hangUp()
	names := store.Subscribe()
	defer names.Close()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	v.reconcile(store.RightsNeeds())
	for {
		v.commit(store)
		select {
		case <-ctx.Done():
			return nil
		case <-needs:
			v.reconcile(store.RightsNeeds())
		case <-names.Bell():
			v.respell(names.Drain())
		case <-ticker.C:
			v.age(time.Now())
		case <-v.bell:
		}
	}
}

// reconcile takes over what plans need.
func (v *Verdicts) reconcile(topics []facts.Topic) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	wanted := make(map[facts.Topic]struct{}, len(topics))
	for _, t := range topics {
		wanted[t] = struct{}{}
		if _, known := v.needed[t]; known {
			continue
		}
		b := v.readers[t.Reader]
		if b == nil {
			continue // its token is not known any more, and its stream about to end
		}
		q := readOf(t)
		b.needs[q] = t
		if d := b.verdicts[q]; v.fresh(d, now) || v.away != "" {
			v.dirty[t] = struct{}{}
		} else {
			v.ask(b, q)
		}
	}
	for t := range v.needed {
		if _, still := wanted[t]; still {
			continue
		}
		v.dirty[t] = struct{}{}
		if b := v.readers[t.Reader]; b != nil {
			delete(b.needs, readOf(t))
		}
	}
	v.needed = wanted
}

// commit writes the rights that may have changed to the store.
func (v *Verdicts) commit(store *facts.Store) {
	v.mu.Lock()
	now := time.Now()
	writes := make([]func(*facts.Tx), 0, len(v.dirty))
	for t := range v.dirty {
		writes = append(writes, v.fact(t, now))
	}
	clear(v.dirty)
	v.mu.Unlock()
	if len(writes) == 0 {
		return
	}
	store.Commit(func(tx *facts.Tx) {
		for _, write := range writes {
			write(tx)
		}
	})
}

// fact returns how a right is written as it is now. The caller holds the lock.
func (v *Verdicts) fact(t facts.Topic, now time.Time) func(*facts.Tx) {
	b := v.readers[t.Reader]
	if b == nil || b.needs[readOf(t)] != t {
		return func(tx *facts.Tx) { tx.Forget(t) }
	}
	d := b.verdicts[readOf(t)]
	if !v.held(d, now) {
		reason := "Consul has not said yet whether the client's token may read the service"
		if v.away != "" {
			reason = "it is not known whether the client's token may read the service: " + v.away
		}
		return func(tx *facts.Tx) { tx.ForgetRight(t, reason) }
	}
	return func(tx *facts.Tx) { tx.Right(t, d.allow) }
}

// respell asks again where a look-up finds other names than were asked for.
func (v *Verdicts) respell(view facts.View, changed []facts.ID) {
	services := map[string]bool{}
	for _, id := range changed {
		if (id.Topic.Kind == facts.TopicServices || id.Topic.Kind == facts.TopicEntries) && id.Row != facts.StatusRow {
			services[id.Row] = true
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(services) == 0 || len(v.bearers) == 0 {
		return
	}
	for _, b := range v.bearers {
		b.questions(func(q Question) {
			d, answered := b.verdicts[q]
			if answered && services[strings.ToLower(q.Service)] && d.as != spelling(view.Spellings(q.Service)) {
				v.ask(b, q)
			}
		})
	}
}

// age asks again what was answered long ago, and ends what was not for too long.
func (v *Verdicts) age(now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	idle := 0
	for _, b := range v.bearers {
		v.expire(b, now)
		b.prune()
		if b.live() {
			v.refresh(b, now)
			continue
		}
		if idle++; idle > maxIdle || now.Sub(b.seen) > v.cfg.Hold {
			v.drop(b)
		}
	}
}

// refresh has everything that depends on a token asked again when it is due. The caller holds the lock.
func (v *Verdicts) refresh(b *bearer, now time.Time) {
	if v.away != "" || now.Before(b.due) {
		return
	}
	if !b.due.IsZero() {
		b.questions(func(q Question) { v.ask(b, q) })
	}
	// Spread, so that a thousand tokens that came at once are not asked for at once for ever.
	b.due = now.Add(v.cfg.Refresh - rand.N(v.cfg.Refresh/4+1))
}

// expire ends the grants that were not confirmed for too long. The caller holds the lock.
func (v *Verdicts) expire(b *bearer, now time.Time) {
	for g := range b.grants {
		if !v.held(b.verdicts[g.question], now) {
			g.revoke(refuse(Unavailable, "Consul could not be asked about the token for %s: try again", v.cfg.Hold))
		}
	}
}

// The bounds of the time between attempts to find out whether Consul answers, and whether it has ACLs.
const (
	retryMin = 250 * time.Millisecond
	retryMax = 5 * time.Second
	// recheck is how often it is looked whether ACLs that are off still are.
	recheck = 10 * time.Second
)

// watchACLs finds out whether Consul has ACLs, and when it answers again, without any token of a client.
func (v *Verdicts) watchACLs(ctx context.Context, store *facts.Store) {
	retry := retryMin
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-v.probe:
			timer.Reset(retryMin)
			retry = retryMin
			continue
		case <-timer.C:
		}
		v.mu.Lock()
		state, away := v.acls, v.away
		v.mu.Unlock()
		if state == aclsOn && away == "" {
			continue // every answer about a token says as much; v.probe rings when one fails
		}
		wait := recheck
		if !v.find(ctx, store) {
			retry = min(retry*2, retryMax)
			wait = retry - rand.N(retry/4)
		}
		timer.Reset(wait)
	}
}

// find asks something for nobody, and reports whether there was an answer.
func (v *Verdicts) find(ctx context.Context, store *facts.Store) bool {
	out := v.consult(ctx, store.View(), Token{}, []Question{{Access: Read}})
	if out.err == nil || errors.Is(out.err, ErrUnknownToken) {
		return true
	}
	if ctx.Err() == nil {
		v.mu.Lock()
		v.lost(out.err.Error())
		v.mu.Unlock()
	}
	return false
}
