package consulwatch

import "sync"

// signal wakes all who wait for it. The zero value is ready to use.
type signal struct {
	mu sync.Mutex
	ch chan struct{}
}

// next returns a channel that is closed when the signal is next given.
func (s *signal) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

// give wakes all who wait.
func (s *signal) give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}
