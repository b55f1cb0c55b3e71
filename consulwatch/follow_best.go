package consulwatch

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// Where events are refused, a topic asks for them again after a while.
const (
	refusedMin = 5 * time.Second
	refusedMax = 5 * time.Minute
)

// followAuto is the [follower] by events where they can be had, and by queries while they cannot.
func (s *Source) followAuto(ctx context.Context, to *sink) {
	if _, ok := subjectFor(to.topic); !ok {
		s.followBlocking(ctx, to)
		return
	}
	again := exponential(refusedMin, refusedMax)
	for ctx.Err() == nil {
		started, renamed := time.Now(), s.renamed.next()
		err := s.followEvents(ctx, to)
		if ctx.Err() != nil {
			return
		}
		if time.Since(started) > refusedMax {
			again.Reset()
		}
		to.served("")
		s.polled(to.topic, err, "what they would tell is asked for by blocking queries")
		polling, end := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer end()
			s.awaitEvents(polling, again, refusal{err, renamed})
		}()
		s.followBlocking(polling, to)
		end()
		<-done
	}
}

// refusal is why there are no events, and what tells that the token is another than the one they were asked for with:
// it is taken before they are, for the token may change while the answer is on its way.
type refusal struct {
	reason  error
	renamed <-chan struct{}
}

// awaitEvents waits until it is worth asking for events again: at once when there was no connection and
// there is one, soon when the token is another, or when Consul is back that was away, else after a while.
func (s *Source) awaitEvents(ctx context.Context, again *backoff.ExponentialBackOff, last refusal) {
	recovered := s.recovered.next()
	var f *failure
	if !errors.As(last.reason, &f) || !f.away {
		recovered = nil // that queries are answered is no reason
	}
	if c, _, _ := s.link.get(); c != nil {
		awaitEither(ctx, again.NextBackOff(), last.renamed, recovered)
	}
	for c, changed, _ := s.link.get(); c == nil && ctx.Err() == nil; c, changed, _ = s.link.get() {
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	pause(ctx, s.spread(2*s.limits.RetryMin), nil)
}

// followStream is the [follower] by events alone, for topics that have them.
func (s *Source) followStream(ctx context.Context, to *sink) {
	if _, ok := subjectFor(to.topic); !ok {
		s.followBlocking(ctx, to)
		return
	}
	retry := exponential(s.limits.RetryMin, s.limits.RetryMax)
	for ctx.Err() == nil {
		renamed := s.renamed.next()
		err := s.followEvents(ctx, to)
		if ctx.Err() != nil {
			return
		}
		to.served("")
		to.lacks("events cannot be had: " + err.Error())
		s.polled(to.topic, err, "what is known stays, and they are asked for again")
		to.mode(ModeRetrying)
		s.awaitEvents(ctx, retry, refusal{err, renamed})
	}
}

// mostReasons is how many reasons why there are no events are said before all topics have them.
const mostReasons = 10

// polled says once for each reason that topics cannot have events, and what is done instead, and once that all
// have events again. No error means that the topic has. That Consul is away as a whole is said by whoever
// asks it.
func (s *Source) polled(topic facts.Topic, err error, instead string) {
	reason, away := "", false
	if err != nil {
		var f *failure
		reason, away = err.Error(), errors.As(err, &f) && f.server
	}
	s.mu.Lock()
	if reason == "" {
		delete(s.polls, topic)
	} else {
		s.polls[topic] = reason
	}
	news := reason != "" && !away && !s.pollsSaid[reason] && len(s.pollsSaid) < mostReasons
	over := len(s.polls) == 0 && len(s.pollsSaid) > 0
	switch {
	case news:
		s.pollsSaid[reason] = true
	case over:
		clear(s.pollsSaid)
	}
	s.mu.Unlock()
	switch {
	case news:
		s.log.Warn("events cannot be had: "+instead, "topic", topic, "reason", reason)
	case over:
		s.log.Info("all topics that have events are followed by them again")
	}
}
