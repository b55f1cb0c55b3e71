package consulwatch

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// slots shares the connections among the needed topics. Over HTTP/1.1 a query that waits holds a
// connection, so when there are more topics than connections they take turns, first come, first
// served: see docs/limits.md.
type slots struct {
	size    int
	free    *semaphore.Weighted
	multi   func() bool // the connections are multiplexed: there is no limit
	changed signal      // crowded has changed

	mu     sync.Mutex
	topics int
	was    bool // what crowded was when the signal was last given
}

func newSlots(size int, multi func() bool) *slots {
	return &slots{size: size, free: semaphore.NewWeighted(int64(size)), multi: multi}
}

// enter counts a topic that is followed until leave is called.
func (s *slots) enter() { s.count(1) }

func (s *slots) leave() { s.count(-1) }

// count adds to the number of topics, and tells when that makes or ends a crowd.
func (s *slots) count(n int) {
	s.mu.Lock()
	s.topics += n
	now := s.crowdedLocked()
	changed := now != s.was
	s.was = now
	s.mu.Unlock()
	if changed {
		s.changed.give()
	}
}

// crowded reports whether there are more topics than connections.
func (s *slots) crowded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.crowdedLocked()
}

func (s *slots) crowdedLocked() bool { return s.topics > s.size && !s.multi() }

// acquire waits for a turn. The returned function ends it.
func (s *slots) acquire(ctx context.Context) (func(), error) {
	if s.multi() {
		return func() {}, nil
	}
	if err := s.free.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	return func() { s.free.Release(1) }, nil
}
