package consulwatch

import (
	"context"
	"time"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// What concerns all topics at once is said once, not once for each of them.

// lost says once that Consul cannot be read, be it for one topic or for all. What is asked when no
// topic is followed yet is the topic without a name.
func (s *Source) lost(topic facts.Topic, reason string) {
	s.mu.Lock()
	news := len(s.away) == 0
	s.away[topic] = struct{}{}
	if news {
		s.back = false
	}
	s.mu.Unlock()
	if news {
		s.log.Warn("Consul cannot be read: all that is known stays, and it is tried again", "reason", reason)
	}
}

// reached hastens those who wait for Consul when it first answers one of them again, and says once that
// all are answered. Where only some are, as under a rate limit, neither is repeated.
func (s *Source) reached(topic facts.Topic) {
	s.mu.Lock()
	hasten := len(s.away) > 0 && !s.back
	s.back = true
	s.mu.Unlock()
	s.regained(topic)
	if hasten {
		s.recovered.give()
	}
}

// regained notes that a topic has what it asks for, which may be events alone.
func (s *Source) regained(topic facts.Topic) {
	s.mu.Lock()
	before := len(s.away)
	delete(s.away, topic)
	over := before > 0 && len(s.away) == 0
	s.mu.Unlock()
	if over {
		s.log.Info("Consul answers again", "address", s.address)
	}
}

// veil says once for each reason that topics are not known completely, and once that all are again.
// An empty reason means that the topic is.
func (s *Source) veil(topic facts.Topic, reason string) {
	s.mu.Lock()
	news := reason != ""
	for _, known := range s.veiled {
		news = news && known != reason
	}
	had := len(s.veiled) > 0
	if reason == "" {
		delete(s.veiled, topic)
	} else {
		s.veiled[topic] = reason
	}
	lifted := had && len(s.veiled) == 0
	s.mu.Unlock()
	switch {
	case news:
		s.log.Warn("a topic is not known completely, and maybe others are not", "topic", topic, "reason", reason)
	case lifted:
		s.log.Info("all topics are known completely again")
	}
}

// The pauses between two readings of everything. One topic is enough to notice a restore, and then many
// do; that the rights of the token have changed is urgent, and rare.
const (
	restorePause = 10 * time.Second
	rightsPause  = time.Second
)

// suspectRestore has every topic that is followed by queries read as a whole again. Not all can notice a
// restore: a watch on Consul's streaming backend sleeps through it.
func (s *Source) suspectRestore() { ring(s.signs) }

// suspectRights is suspectRestore for when the rights of the token may have changed, which a query that
// waits is not told.
func (s *Source) suspectRights() { ring(s.cuts) }

// ring rings a bell of capacity one.
func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// reread passes on the signs that everything is to be read again, with pauses, until ctx ends. Signs of a
// restore that come in the pause are of the same one; a change of rights in it is passed on.
func (s *Source) reread(ctx context.Context) {
	for {
		select {
		case <-s.signs:
			s.log.Info("Consul gave up a query, as when its state is restored: everything is read again")
		case <-s.cuts:
		case <-ctx.Done():
			return
		}
		s.restored.give()
		pause(ctx, rightsPause, nil)
		rest := time.NewTimer(restorePause - rightsPause)
		select {
		case <-rest.C:
		case <-s.cuts:
			ring(s.cuts) // it is due now
		case <-ctx.Done():
		}
		rest.Stop()
		select {
		case <-s.signs:
		default:
		}
	}
}
