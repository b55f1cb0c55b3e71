package consulwatch

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/proto/subscribe"
)

// Consul keeps a snapshot for 10 s: the end of one says only how it was then, and what happened since
// is replayed. So a snapshot counts when events have paused for settleTime, or come for settleMost.
const (
	settleTime = 50 * time.Millisecond
	settleMost = time.Second
)

// streamWatch is the state of following the instances of one topic by events.
type streamWatch struct {
	source *Source
	to     *sink
	view   applier
	doubts *doubts
	retry  *backoff.ExponentialBackOff

	// Of the stream in use.
	settle  *time.Timer // when the snapshot counts
	ended   time.Time   // when the snapshot ended
	failing int         // how many streams in a row brought nothing
}

// followEvents follows a topic of instances by events. It returns when ctx ends, or with the reason why
// events cannot be had.
func (s *Source) followEvents(ctx context.Context, to *sink) error {
	w := &streamWatch{source: s, to: to, retry: exponential(s.limits.RetryMin, s.limits.RetryMax), doubts: s.newDoubts(to)}
	w.view.reset()
	if to.topic.Datacenter != s.here() {
		// What another datacenter says may never come, and only a query says why.
		if err := w.readFirst(ctx); err != nil {
			return err
		}
	}
	for ctx.Err() == nil {
		conn, server, err := s.link.await(ctx)
		if err != nil {
			return err
		}
		to.served(server)
		err = w.stream(ctx, subscribe.NewStateChangeSubscriptionClient(conn), server)
		if ctx.Err() != nil {
			return nil
		}
		if err := w.after(ctx, err); err != nil {
			return err
		}
	}
	return nil
}

// after does what the end of a stream asks for. It returns an error when events are not to be had.
func (w *streamWatch) after(ctx context.Context, err error) error {
	var f *failure
	switch {
	case errors.Is(err, errReset):
		w.view.reset()
		w.source.log.Debug("the events begin again", "topic", w.to.topic, "reason", err)
		pause(ctx, rand.N(2*w.source.limits.RetryMin), nil) // all topics hear it at once
		return nil
	case errors.Is(err, errCut):
		pause(ctx, rand.N(w.source.limits.RetryMin), nil)
		return nil
	case errors.As(err, &f) && f.limited:
		w.to.fail(err)
	case w.failing > 1:
		return err
	}
	w.view.reset()
	pause(ctx, w.retry.NextBackOff(), nil)
	return nil
}

// stream follows one stream to its end.
func (w *streamWatch) stream(ctx context.Context, on subscribe.StateChangeSubscriptionClient, server string) error {
	request, _ := subjectFor(w.to.topic)
	request.Token = w.source.token()
	if w.view.live() && w.view.index > 0 {
		request.Index = w.view.index
		w.to.mode(ModeStreaming)
	} else {
		w.view.reset()
		w.to.mode(ModeSnapshot)
	}
	sub, err := subscribeTo(ctx, on, request)
	if err != nil {
		return explainEnd(w.to.topic, server, err)
	}
	defer sub.close()
	defer w.doubts.stop()
	w.failing++
	w.settle = time.NewTimer(silence)
	defer w.settle.Stop()
	for {
		select {
		case e := <-sub.events:
			if err := w.event(e); err != nil {
				return err
			}
		case <-w.settle.C:
			if w.view.live() {
				continue // resumed
			}
			if !w.view.ended {
				return errSilent
			}
			w.settled()
		case <-w.doubts.due():
			w.doubts.look(ctx)
		case r := <-w.doubts.answers:
			if err := w.answered(r); err != nil {
				w.to.fail(err)
			}
		case err := <-sub.failed:
			return explainEnd(w.to.topic, server, err)
		}
	}
}

// event applies an event.
func (w *streamWatch) event(e *subscribe.Event) error {
	effects, err := w.view.apply(e)
	if err != nil {
		return &failure{text: "Consul's events have not the expected shape: " + err.Error(), cause: err}
	}
	switch {
	case !w.view.live() && !w.view.ended:
		w.to.mode(ModeSnapshot)
		w.settle.Reset(silence)
		w.ended = time.Time{}
	case !w.view.live():
		if w.ended.IsZero() {
			w.ended = time.Now()
		}
		w.settle.Reset(min(settleTime, time.Until(w.ended.Add(settleMost))))
	case len(effects) > 0:
		w.doubts.later(effects)
		if w.to.effects(effects, w.view.index) {
			w.doubts.raise()
		}
	}
	return nil
}

// settled commits a snapshot.
func (w *streamWatch) settled() {
	w.doubts.overtake()
	out := w.to.snapshot(w.view.settle(), w.view.index)
	w.to.mode(ModeStreaming)
	w.failing = 0
	w.retry.Reset()
	w.doubts.judge(out)
}

// answered commits the reading that was made to resolve a doubt, and what has happened since.
func (w *streamWatch) answered(r reading) error {
	later, ok, err := w.doubts.take(r)
	if !ok {
		return err
	}
	since := later[:0]
	for _, e := range later {
		if e.index > r.answer.index {
			since = append(since, e)
		}
	}
	out, err := w.to.commitSince(r.answer, facts.Reading{Confirmed: r.seen, Reset: true}, since)
	if err != nil {
		w.doubts.again()
		return err
	}
	w.view.read(r.answer.index)
	w.doubts.resolved(out, r)
	return nil
}

// readFirst reads a topic by a query, so that it is known whether it can be read at all.
func (w *streamWatch) readFirst(ctx context.Context) error {
	w.doubts.raise()
	w.doubts.look(ctx)
	defer w.doubts.stop()
	select {
	case r := <-w.doubts.answers:
		return w.answered(r)
	case <-ctx.Done():
		return ctx.Err()
	}
}
