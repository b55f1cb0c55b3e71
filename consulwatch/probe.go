package consulwatch

import (
	"context"
	"math/rand/v2"
	"time"
)

// probeEvery is how often a Consul that cannot be reached is asked whether it is back, give or take half.
const probeEvery = time.Second

// probe asks on behalf of all whether a Consul that cannot be reached is back, until ctx ends: those who
// want something of it try ever less often, and are told.
func (s *Source) probe(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-s.gone:
		case <-ctx.Done():
			return
		}
		for s.unread() && ctx.Err() == nil {
			pause(ctx, probeEvery/2+rand.N(probeEvery), nil)
			if s.led(ctx) {
				s.recovered.give()
				// What fails in spite of it is not to be asked for all the time.
				pause(ctx, s.limits.RetryMax, nil)
				break
			}
		}
	}
}

// unread reports whether there is anything that Consul does not answer for.
func (s *Source) unread() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.away) > 0
}

// led reports whether Consul answers and has a leader, without which it has nothing to tell.
func (s *Source) led(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*probeEvery)
	defer cancel()
	var leader string
	_, err := s.client.Raw().Query("/v1/status/leader", &leader, s.options(ctx))
	return err == nil && leader != ""
}
