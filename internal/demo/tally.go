package demo

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// window is the recent past that a tally counts apart.
const window = 10 * time.Second

// tally counts answers. The zero value is empty; it is safe for concurrent use.
type tally struct {
	mu     sync.Mutex
	total  map[answer]int
	recent []timed
}

// answer is who answered for an upstream.
type answer struct{ upstream, who string }

type timed struct {
	at time.Time
	answer
}

// count is how often somebody answered, recently and in all, and of how many.
type count struct {
	answer
	recent, recentAll, total, all int
}

// add counts an answer. Times must not go back.
func (t *tally) add(now time.Time, upstream, who string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.total == nil {
		t.total = map[answer]int{}
	}
	a := answer{upstream, who}
	t.total[a]++
	t.recent = append(t.recent, timed{now, a})
	t.expire(now)
}

func (t *tally) expire(now time.Time) {
	t.recent = slices.DeleteFunc(t.recent, func(r timed) bool { return now.Sub(r.at) > window })
}

// counts returns who ever answered, in the order of upstream and name.
func (t *tally) counts(now time.Time) []count {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire(now)
	recent, recentAll, all := map[answer]int{}, map[string]int{}, map[string]int{}
	for _, r := range t.recent {
		recent[r.answer]++
		recentAll[r.upstream]++
	}
	for a, n := range t.total {
		all[a.upstream] += n
	}
	list := make([]count, 0, len(t.total))
	for a, n := range t.total {
		list = append(list, count{
			answer: a, recent: recent[a], recentAll: recentAll[a.upstream], total: n, all: all[a.upstream],
		})
	}
	slices.SortFunc(list, func(a, b count) int {
		return cmp.Or(cmp.Compare(a.upstream, b.upstream), cmp.Compare(a.who, b.who))
	})
	return list
}
