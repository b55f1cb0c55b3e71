package consulwatch

import (
	"slices"
	"strings"
	"time"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// Mode is how a topic is followed at the moment.
type Mode string

// The modes of a topic.
const (
	// ModeReading asks for the whole, to know what is not there.
	ModeReading Mode = "reading"
	// ModeBlocking waits for a change.
	ModeBlocking Mode = "blocking"
	// ModeTurns waits for a change for a short while, and then for its next turn.
	ModeTurns Mode = "taking turns"
	// ModeSnapshot receives the whole by events.
	ModeSnapshot Mode = "snapshot"
	// ModeStreaming hears of each change by an event.
	ModeStreaming Mode = "streaming"
	// ModeAsking asks from time to time, and when Consul was away.
	ModeAsking Mode = "asking"
	// ModeFixed is given by the configuration, and not followed.
	ModeFixed Mode = "fixed"
	// ModeRetrying waits before it tries again after a failure.
	ModeRetrying Mode = "retrying"
)

// backendEvents is the backend of what is followed by events.
const backendEvents = "events"

// Status is how it is going with one topic.
type Status struct {
	Topic facts.Topic
	Mode  Mode
	// Index is Consul's index of the last answer, and Backend what answered: blocking-query, streaming
	// or, when the servers tell of changes themselves, events.
	Index   uint64
	Backend string
	// Server is the server that tells the events; empty when the topic is followed by queries.
	Server string
	// Age is how long ago Consul last answered, or the last event came; negative when it never did.
	Age time.Duration
	// Failure is why the last attempt failed; empty when it did not.
	Failure string
	// Off is why Consul has no such thing, where that is no fault; empty when it has.
	Off string
	// Hidden is why what is missing from the last reading counts as unknown; empty when it does not.
	Hidden string
	// Problems are what is wrong with the config entries of the last answer. One that cannot be decoded
	// keeps its last good form.
	Problems []chain.Problem
	// Followed is how long the topic has been followed.
	Followed time.Duration
	// Lingering means that nothing needs the topic any more.
	Lingering bool

	answered time.Time
}

// off records why Consul has no such thing, which is no fault.
func (k *sink) off(reason string) {
	k.store.Commit(func(tx *facts.Tx) { tx.Off(k.topic, reason) })
	k.mu.Lock()
	news := k.status.Off != reason
	k.status.Off, k.status.Failure, k.status.answered = reason, "", time.Now()
	k.mu.Unlock()
	k.source.reached(k.topic)
	if news {
		k.source.log.Info("Consul has nothing to follow here", "topic", k.topic, "reason", reason)
	}
}

// Status returns how it is going with each topic, in the order of their names.
func (s *Source) Status() []Status {
	s.mu.Lock()
	list := make([]Status, 0, len(s.following))
	for topic, f := range s.following {
		f.sink.mu.Lock()
		status := f.sink.status
		f.sink.mu.Unlock()
		status.Topic, status.Lingering, status.Age = topic, !f.until.IsZero(), -1
		status.Followed = time.Since(f.begun)
		if !status.answered.IsZero() {
			status.Age = time.Since(status.answered)
		}
		list = append(list, status)
	}
	s.mu.Unlock()
	slices.SortFunc(list, func(a, b Status) int { return strings.Compare(a.Topic.String(), b.Topic.String()) })
	return list
}
