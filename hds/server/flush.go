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

// unflushed reports whether there are checkers to be told something.
func (e *engine) unflushed() bool { return len(e.due)+len(e.round) > 0 }

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
		e.enlist()
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
		}
	}
	clear(e.joining)
	e.assignment.Join(came...)
	e.moved()
}
