package consulwatch

import (
	"time"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// What concerns all topics at once is said once, not once for each of them.

// lost says once that Consul cannot be read.
func (s *Source) lost(reason string) {
	s.mu.Lock()
	news := s.away == ""
	s.away = reason
	s.mu.Unlock()
	if news {
		s.log.Warn("Consul cannot be read: all that is known stays", "reason", reason)
	}
}

// reached says once that Consul answers again, and hastens those who wait for it.
func (s *Source) reached() {
	s.mu.Lock()
	news := s.away != ""
	s.away = ""
	s.mu.Unlock()
	if news {
		s.log.Info("Consul answers again", "address", s.address)
		s.recovered.give()
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

// restorePause is the least time between two readings of everything.
const restorePause = 10 * time.Second

// suspectRestore has every topic read as a whole again. One topic is enough to notice a restore, and
// not all can: a watch on Consul's streaming backend sleeps through it.
func (s *Source) suspectRestore() {
	s.mu.Lock()
	now := time.Now()
	if now.Sub(s.restore) < restorePause {
		s.mu.Unlock()
		return
	}
	s.restore = now
	s.mu.Unlock()
	s.log.Info("Consul gave up a query, as when its state is restored: everything is read again")
	s.restored.give()
}
