package hds

import (
	"maps"
	"slices"
)

// ranked is the best checkers of one kind, best first.
type ranked struct {
	at    [maxCheckers]int32
	score [maxCheckers]uint64
	n     int
}

// add keeps the checker if it is among the best n.
func (r *ranked) add(at int32, score uint64, n int) {
	if r.n == n && score <= r.score[n-1] {
		return
	}
	if r.n < n {
		r.n++
	}
	i := r.n - 1
	for ; i > 0 && score > r.score[i-1]; i-- {
		r.at[i], r.score[i] = r.at[i-1], r.score[i-1]
	}
	r.at[i], r.score[i] = at, score
}

// candidates are checkers for one endpoint: in its zone, outside it, and on its own node, whose word counts
// only beside another's.
type candidates struct{ near, far, own ranked }

func (c *candidates) add(f *fleet, p *post, at int32, n int) {
	s := score(p.hash, f.hash[at])
	where := f.place[at]
	switch {
	case p.place.node != 0 && where.node == p.place.node:
		c.own.add(at, s, n)
	case p.place.zone != 0 && where.zone == p.place.zone:
		c.near.add(at, s, n)
	default:
		c.far.add(at, s, n)
	}
}

// pick returns the k to have: one from outside where there is one, the others from inside where there are,
// and those of the endpoint's own node last, never alone.
func (c *candidates) pick(k int, into []int32) []int32 {
	near := k
	if k > 1 && c.far.n > 0 {
		near = k - 1
	}
	into = append(into, c.near.at[:min(near, c.near.n)]...)
	into = append(into, c.far.at[:min(k-len(into), c.far.n)]...)
	if len(into) > 0 {
		into = append(into, c.own.at[:min(k-len(into), c.own.n)]...)
	}
	return into
}

// Bounds of a checker's load, in percent of the mean: up to which it is given duties, and beyond which it
// loses some. With less than the second it moves less when it goes away.
const (
	givenPercent = 110
	mostPercent  = 125
)

// limit is so many percent of the mean number of duties, and no more than one can have.
func (a *Assignment) limit(percent int) int {
	n := len(a.checkers)
	if n == 0 || a.unbounded {
		return a.maxDuties
	}
	return min((a.count*min(a.k, n)*percent+100*n-1)/(100*n), a.maxDuties)
}

// fill gives the endpoint the checkers that it lacks.
func (a *Assignment) fill(at int32) {
	p := &a.posts[at]
	for _, limit := range []int{a.limit(givenPercent), a.maxDuties} {
		if len(p.holders) >= a.k {
			return
		}
		a.settle(at, a.bestFor(p, limit))
	}
}

// bestFor ranks those who have room, with those who have the duty before all others: what need not move stays.
func (a *Assignment) bestFor(p *post, limit int) []int32 {
	var held, open candidates
	for _, c := range p.holders {
		held.add(&a.fleet, p, c, maxCheckers)
	}
	for i, can := range a.fleet.can {
		c := int32(i)
		if can&p.needs == p.needs && int(a.fleet.load[c]) < limit && !slices.Contains(p.holders, c) {
			open.add(&a.fleet, p, c, a.k)
		}
	}
	held.near.follow(open.near)
	held.far.follow(open.far)
	held.own.follow(open.own)
	return held.pick(a.k, nil)
}

// follow appends the others after all there are.
func (r *ranked) follow(others ranked) {
	for i := 0; i < others.n && r.n < maxCheckers; i++ {
		r.at[r.n], r.score[r.n] = others.at[i], others.score[i]
		r.n++
	}
}

// offer gives a newcomer the duties that it ranks high enough for.
func (a *Assignment) offer(c int32) {
	limit := a.limit(givenPercent)
	var picked [maxCheckers]int32
	for i := range a.posts {
		p := &a.posts[i]
		if int(a.fleet.load[c]) >= limit {
			return
		}
		if !p.used || a.fleet.can[c]&p.needs != p.needs {
			continue
		}
		var all candidates
		for _, h := range p.holders {
			all.add(&a.fleet, p, h, maxCheckers)
		}
		all.add(&a.fleet, p, c, maxCheckers)
		if best := all.pick(a.k, picked[:0]); slices.Contains(best, c) {
			a.settle(int32(i), best)
			a.fill(int32(i)) // with another beside them, those of the endpoint's own node may help too
		}
	}
}

// Rebalance takes duties from checkers that have more than their share. It moves a tenth of a checker's
// share at most, so that a small change of the fleet never moves much: whoever uses the assignment calls it
// now and then, and every change of it does.
func (a *Assignment) Rebalance() {
	n := len(a.checkers)
	if n == 0 {
		return
	}
	limit := a.limit(mostPercent)
	budget := a.count*min(a.k, n)/n/10 + 1
	for c := range a.fleet.can {
		for over := int(a.fleet.load[c]) - limit; over > 0 && budget > 0; over-- {
			if !a.shed(int32(c)) {
				break
			}
			budget--
		}
	}
}

// shed takes from the checker the duty for which it ranks lowest, if there is another for it.
func (a *Assignment) shed(c int32) bool {
	limit := a.limit(givenPercent)
	duties := slices.SortedFunc(maps.Keys(a.fleet.duties[c]), func(x, y int32) int {
		if score(a.posts[x].hash, a.fleet.hash[c]) < score(a.posts[y].hash, a.fleet.hash[c]) {
			return -1
		}
		return 1
	})
	for _, at := range duties[:min(len(duties), shedTries)] {
		p := &a.posts[at]
		before := len(p.holders)
		a.release(at, c)
		if best := a.bestFor(p, limit); len(best) == before {
			a.settle(at, best)
			return true
		}
		a.settle(at, append(slices.Clone(p.holders), c))
	}
	return false
}

// shedTries bounds the search for a duty that someone else can have.
const shedTries = 8

// settle makes these the endpoint's checkers.
func (a *Assignment) settle(at int32, holders []int32) {
	p := &a.posts[at]
	for _, c := range slices.Clone(p.holders) {
		if !slices.Contains(holders, c) {
			a.release(at, c)
		}
	}
	for _, c := range holders {
		if !slices.Contains(p.holders, c) {
			p.holders = append(p.holders, c)
			a.fleet.duties[c][at] = struct{}{}
			a.fleet.load[c]++
			a.changed[c] = true
		}
	}
}

func (a *Assignment) release(at, c int32) {
	p := &a.posts[at]
	p.holders = slices.DeleteFunc(p.holders, func(h int32) bool { return h == c })
	delete(a.fleet.duties[c], at)
	a.fleet.load[c]--
	a.changed[c] = true
}

func (a *Assignment) vacate(at int32) { a.settle(at, nil) }

// rebuild assigns everything anew.
func (a *Assignment) rebuild() {
	for i := range a.posts {
		a.vacate(int32(i))
	}
	for i := range a.posts {
		if a.posts[i].used {
			a.fill(int32(i))
		}
	}
	a.Rebalance()
}
