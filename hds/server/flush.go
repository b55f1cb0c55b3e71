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
	// gatherTimes is how many times what it took to make the last ones, up to mostGather: when a thousand come at
	// once, there must be time to hear them.
	gatherTimes = 3
	mostGather  = time.Second
)

func (e *engine) gather() time.Duration {
	least := gather
	if e.awaiting {
		least = gatherAtStart
	}
	return max(least, min(gatherTimes*e.toll, mostGather))
}

// retry has those who wait for shapes asked again which they may have.
func (e *engine) retry() {
	for id := range e.waiting {
		e.due[id] = struct{}{}
	}
}

// flush tells checkers what changed for them.
func (e *engine) flush(now time.Time) {
	began := time.Now()
	e.enlist()
	due := slices.Sorted(maps.Keys(e.due)) // the first of equals tries a new shape
	clear(e.due)
	for _, id := range due {
		if c := e.checkers[id]; c != nil && c.active != nil {
			e.tell(now, c)
		}
	}
	e.toll = time.Since(began)
	e.flushed = now.Add(e.toll)
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
