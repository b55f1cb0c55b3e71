package hds

import (
	"container/heap"
	"slices"
	"time"
)

// timers are when to look at records again. A record's earlier entries stay when it gets another, and are
// passed over.
type timers struct{ entries timerHeap }

type timer struct {
	at     time.Time
	record *record
}

// add has a record looked at again at its time of being due, of so many that there are: whatever makes it another
// time again and again does not fill the memory with those that are no longer.
func (t *timers) add(r *record, records int) {
	if len(t.entries) >= 2*records+minTimers {
		t.entries = slices.DeleteFunc(t.entries, func(e timer) bool { return !e.live() })
		heap.Init(&t.entries)
	}
	heap.Push(&t.entries, timer{r.due, r})
}

const minTimers = 64

// live reports whether the record is still to be looked at then.
func (t timer) live() bool { return t.record.due.Equal(t.at) && !t.record.gone }

// due takes the records whose time has come.
func (t *timers) due(now time.Time) []*record {
	var records []*record
	for len(t.entries) > 0 && !t.entries[0].at.After(now) {
		e := heap.Pop(&t.entries).(timer)
		if e.live() {
			records = append(records, e.record)
		}
	}
	return records
}

type timerHeap []timer

// Len implements [heap.Interface].
func (h timerHeap) Len() int { return len(h) }

// Less implements [heap.Interface].
func (h timerHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }

// Swap implements [heap.Interface].
func (h timerHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements [heap.Interface].
func (h *timerHeap) Push(x any) { *h = append(*h, x.(timer)) }

// Pop implements [heap.Interface].
func (h *timerHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = timer{}
	*h = old[:len(old)-1]
	return e
}
