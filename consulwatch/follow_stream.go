package consulwatch

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/catenary-mesh/catenary/internal/proto/subscribe"
)

// mostPatience is how many streams in a row may bring nothing for a reason that passes.
const mostPatience = 3

// streamWatch is the state of following one topic by events. Those of instances are applied; those of
// other topics tell that the whole is to be read.
type streamWatch struct {
	source *Source
	to     *sink
	view   applier // of a topic of instances
	bell   *bell   // of another topic; nil for one of instances
	doubts *doubts
	retry  *backoff.ExponentialBackOff

	// swept is when the whole is read because events do not tell all; nil while it need not be.
	swept *time.Timer

	// Of the stream in use.
	server  string
	settle  *time.Timer // when the snapshot counts
	ended   time.Time   // when the snapshot ended
	failing int         // how many streams in a row brought nothing
	central central
	missing missing
	unseen  int  // how many streams in a row did not show what there is
	reset   bool // the last stream ended as when the state is restored: the next may tell less, or of before
}

// followEvents follows a topic by events. It returns when ctx ends, or with the reason why events cannot
// be had.
func (s *Source) followEvents(ctx context.Context, to *sink) error {
	w := &streamWatch{source: s, to: to, retry: exponential(s.limits.RetryMin, s.limits.RetryMax), doubts: s.newDoubts(to), central: newCentral(to)}
	if rings(to.topic.Kind) {
		w.bell = &bell{kind: to.topic.Kind}
	}
	w.forget()
	defer w.end()
	w.readFirst(ctx)
	for ctx.Err() == nil {
		conn, err := w.await(ctx)
		if err != nil {
			return err
		}
		same, err := s.rights.same(ctx)
		if err == nil && !same {
			err = errNoToken
		}
		if err != nil {
			return err
		}
		err = w.stream(ctx, conn)
		if ctx.Err() != nil {
			return nil
		}
		if err := w.after(ctx, err); err != nil {
			return err
		}
	}
	return nil
}

// end ends what the watch has begun.
func (w *streamWatch) end() {
	w.doubts.end()
	if w.swept != nil {
		w.swept.Stop()
	}
}

// forget drops the view, so that the next stream begins with a snapshot.
func (w *streamWatch) forget() {
	w.ended = time.Time{}
	w.view.reset()
	if w.bell != nil {
		w.bell.reset()
	}
}

// resume returns the index from which the view can go on; 0 when there is no view.
func (w *streamWatch) resume() uint64 {
	switch {
	case w.bell != nil && w.bell.live:
		return w.bell.index
	case w.bell == nil && w.view.live():
		return w.view.index
	}
	return 0
}

// live reports whether the snapshot of the stream is over.
func (w *streamWatch) live() bool {
	if w.bell != nil {
		return w.bell.live
	}
	return w.view.live()
}

// after does what the end of a stream asks for. It returns an error when events are not to be had.
func (w *streamWatch) after(ctx context.Context, err error) error {
	if w.bell != nil {
		w.bell.read = 0 // what is heard next may be from before, as after a restore
	}
	most := 1
	var f *failure
	switch {
	case errors.Is(err, errReset):
		most = mostPatience
		w.forget()
		w.to.known, w.reset = 0, true
		w.source.suspectRights()
	case errors.Is(err, errRenamed):
		most = mostPatience
		w.forget()
	case errors.Is(err, errMoved), errors.Is(err, errCut):
		most = mostPatience
	case errors.Is(err, errBlind):
		w.unseen++
		w.failing = w.unseen
		w.forget()
	case errors.As(err, &f) && f.limited:
		most = mostPatience
		w.forget()
	default:
		w.forget()
	}
	if w.failing > most {
		return err
	}
	if f != nil || w.failing > 1 {
		pause(ctx, w.retry.NextBackOff(), nil)
	}
	return w.scatter(ctx)
}

// scatter keeps the topics from asking a server for their streams all at once, which all have lost those from
// before, and wait for the same connection.
func (w *streamWatch) scatter(ctx context.Context) error {
	var before *connection
	for range mostPatience {
		on, err := w.await(ctx)
		if err != nil || on == before {
			return err
		}
		before = on
		pause(ctx, w.source.spread(2*w.source.limits.RetryMin), nil)
	}
	return nil
}

// await returns the connection, once there is one, and an error when none can be had. A reading may be under
// way, and does not wait for it.
func (w *streamWatch) await(ctx context.Context) (*connection, error) {
	for {
		c, changed, reason := w.source.link.get()
		if c != nil || reason != nil {
			return c, reason
		}
		select {
		case <-changed:
		case r := <-w.doubts.answers:
			w.answered(r)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// subscribe asks for the events of the topic, from where the view can go on.
func (w *streamWatch) subscribe(ctx context.Context, on *connection) (*subscription, error) {
	w.server = on.server
	request, _ := subjectFor(w.to.topic)
	request.Datacenter = w.source.datacenterOf(w.to.topic)
	request.Token, request.Index = w.source.access.secret(), w.resume()
	if request.Index > 0 {
		w.to.mode(ModeStreaming)
		w.to.served(on.server)
	} else {
		w.forget()
		w.to.mode(ModeSnapshot)
		w.to.served("")
	}
	sub, err := subscribeTo(ctx, subscribe.NewStateChangeSubscriptionClient(on.conn), request)
	if err != nil {
		return nil, explainEnd(on.server, err)
	}
	return sub, nil
}

// stream follows one stream to its end.
func (w *streamWatch) stream(ctx context.Context, on *connection) error {
	renamed, recovered := w.source.renamed.next(), w.source.recovered.next() // before the token is looked at
	sub, err := w.subscribe(ctx, on)
	if err != nil {
		return err
	}
	defer sub.close()
	defer w.doubts.stop()
	w.failing++
	w.settle = time.NewTimer(w.source.limits.Silence)
	defer w.settle.Stop()
	w.merged()
	for {
		select {
		case e := <-sub.events:
			if err := w.event(e); err != nil {
				return err
			}
		case <-w.settle.C:
			if !w.live() && !w.view.ended {
				return errSilent
			}
			w.settled()
		case <-w.central.next:
			w.merged()
		case <-w.sweepDue():
			w.swept = nil
			w.doubts.raise()
		case <-recovered:
			recovered = w.source.recovered.next()
			w.doubts.hasten()
		case <-w.doubts.due():
			w.doubts.look(ctx)
		case r := <-w.doubts.answers:
			w.answered(r)
			if w.blind() {
				return errBlind
			}
		case err := <-sub.failed:
			return explainEnd(on.server, err)
		case <-on.left:
			return errMoved
		case <-renamed:
			return errRenamed
		}
	}
}
