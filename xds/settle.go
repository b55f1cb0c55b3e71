package xds

import (
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// settling gives the memory of a burst of new clients back to the system when it is over. Go would keep
// as much again for a next burst, and the stacks as deep as the first turns were; a quarter of all memory
// with 300 clients of 10 upstreams.
type settling struct {
	joined atomic.Int64
	timer  *time.Timer
}

// burst is how many clients must have come for it to be worth a collection, and calm how long none may
// have.
const (
	burst = 50
	calm  = time.Second
)

func newSettling() *settling {
	s := &settling{}
	s.timer = time.AfterFunc(time.Hour, func() {
		if s.joined.Swap(0) >= burst {
			runtime.GC() // each collection halves the stacks that have become too deep
			runtime.GC()
			debug.FreeOSMemory()
		}
	})
	return s
}

// join notes a new client.
func (s *settling) join() {
	s.joined.Add(1)
	s.timer.Reset(calm)
}
