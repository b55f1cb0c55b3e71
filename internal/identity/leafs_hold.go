package identity

import (
	"maps"
	"slices"
	"time"
)

// behind is how long the certificate before the one in use can be had.
const behind = time.Minute

// hold takes a certificate and its key into use.
func (k *keeper) hold(one *kept, issued Issued, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	name := one.topic.Name
	next := []pair{{fact: one.now.fact, chain: []byte(issued.Chain), key: issued.Key}}
	for _, old := range k.pairs[name] {
		if old.until.IsZero() {
			old.until = now.Add(behind)
			one.trim = old.until
		}
		if old.until.After(now) && len(next) < mostPairs {
			next = append(next, old)
		}
	}
	k.pairs[name] = next
	delete(k.problems, name)
}

// mostPairs bounds the certificates of a service that can be had at once.
const mostPairs = 4

// drop forgets the keys of a service.
func (l *Leafs) drop(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pairs, name)
	delete(l.problems, name)
}

// alarm records what is wrong with the certificate of a service.
func (l *Leafs) alarm(name, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.problems[name] = text
}

// Problems returns what an operator should see to, in the order of services: certificates that were not
// renewed in time.
func (l *Leafs) Problems() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []string
	for _, name := range slices.Sorted(maps.Keys(l.problems)) {
		list = append(list, l.problems[name])
	}
	return list
}

// tell tells the metrics what is held.
func (k *keeper) tell() {
	held, first := 0, time.Time{}
	for _, one := range k.kept {
		if one.now == nil {
			continue
		}
		held++
		if first.IsZero() || one.now.fact.NotAfter.Before(first) {
			first = one.now.fact.NotAfter
		}
	}
	k.cfg.Metrics.LeafsHeld(held, first)
}

// trim drops the certificates of a service that can no longer be had.
func (l *Leafs) trim(name string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pairs[name] = slices.DeleteFunc(l.pairs[name], func(p pair) bool { return !p.until.IsZero() && !p.until.After(now) })
}
