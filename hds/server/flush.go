package server

import (
	"maps"
	"slices"
	"time"

	"github.com/catenary-mesh/catenary/hds"
)

// How long after specifiers the next may come: what changes meanwhile goes out together.
const (
	gather = 200 * time.Millisecond
	// gatherAtStart is for while clients wait for verdicts.
	gatherAtStart = 50 * time.Millisecond
	// gatherTimes is how many times what it took to make the last ones, up to mostGather.
	gatherTimes = 3
	mostGather  = time.Second
	// slice is how long specifiers are made without a pause, of half that time: a thousand that report must be heard
	// meanwhile.
	slice = 50 * time.Millisecond
)

func (e *engine) gather() time.Duration {
	if len(e.round) > 0 {
		return e.sliced / 2
	}
	least := gather
	if e.awaiting {
		least = gatherAtStart
	}
	return max(least, min(gatherTimes*e.toll, mostGather))
}

// flushAt is when checkers are to be told something next; zero when none are.
func (e *engine) flushAt() time.Time {
	at := e.flushed.Add(e.gather())
	switch {
	case len(e.due)+len(e.round) > 0:
		return at
	case len(e.joining) == 0:
		return time.Time{}
	}
	if settled := e.settledAt(); settled.After(at) {
		return settled
	}
	return at
}

// settledAt is when those who have come get duties. Each of them moves duties of others, so that where there is much
// to tell a fleet that comes back is waited for.
func (e *engine) settledAt() time.Time {
	if len(e.joining) < manyJoin || e.assignment.Len() < muchToTell {
		return e.firstCame
	}
	at, most := e.lastCame.Add(joinPause), e.firstCame.Add(mostJoin)
	if most.Before(at) {
		return most
	}
	return at
}

// Those who come are waited for if they are that many, where that many endpoints are probed: until nobody has come for
// a pause.
const (
	manyJoin   = 8
	muchToTell = 10_000
	joinPause  = 200 * time.Millisecond
	mostJoin   = 2 * time.Second
)

// retry has those who wait for shapes asked again which they may have.
func (e *engine) retry() {
	for id := range e.waiting {
		e.due[id] = struct{}{}
	}
}

// flush tells checkers what changed for them, as many as there is time for: the others of the round are next.
func (e *engine) flush(now time.Time) {
	began := time.Now()
	if len(e.round) == 0 {
		e.toll = 0
		if !now.Before(e.settledAt()) {
			e.enlist()
		}
		e.round = slices.Sorted(maps.Keys(e.due)) // the first of equals tries a new shape
		clear(e.due)
	}
	for len(e.round) > 0 && time.Since(began) < slice {
		id := e.round[0]
		e.round = e.round[1:]
		c := e.checkers[id]
		if _, joining := e.joining[id]; joining || c == nil || c.active == nil {
			continue // who has come since has no duties before the next round
		}
		delete(e.due, id)
		e.tell(now, c)
	}
	e.sliced = time.Since(began)
	e.toll += e.sliced
	e.flushed = now.Add(e.sliced)
}

// enlist gives duties to those who have come: to all at once, since each of them moves duties of others.
func (e *engine) enlist() {
	if len(e.joining) == 0 {
		return
	}
	var came []hds.Checker
	for _, id := range slices.Sorted(maps.Keys(e.joining)) {
		if c := e.checkers[id]; c != nil && c.active != nil {
			came = append(came, c.describe())
			e.due[id] = struct{}{} // also if there is nothing for it
		}
	}
	clear(e.joining)
	e.assignment.Join(came...)
	e.moved()
}
