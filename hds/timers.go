package hds

import (
	"container/heap"
	"time"
)

// timers are when to look at records again. A record's earlier entries stay when it gets another, and are
// passed over.
type timers struct{ entries timerHeap }

type timer struct {
	at     time.Time
	record *record
}

func (t *timers) add(at time.Time, r *record) { heap.Push(&t.entries, timer{at, r}) }

// due takes the records whose time has come.
func (t *timers) due(now time.Time) []*record {
	var records []*record
	for len(t.entries) > 0 && !t.entries[0].at.After(now) {
		e := heap.Pop(&t.entries).(timer)
		if e.record.due.Equal(e.at) && !e.record.gone {
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
