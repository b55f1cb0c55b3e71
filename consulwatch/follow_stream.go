package consulwatch

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
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
		conn, err := s.link.await(ctx)
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
	switch {
	case w.failing > most:
		return err
	case f == nil && w.failing <= 1:
		pause(ctx, w.source.spread(2*w.source.limits.RetryMin), nil)
	default:
		pause(ctx, w.retry.NextBackOff(), nil)
	}
	return nil
}

// stream follows one stream to its end.
func (w *streamWatch) stream(ctx context.Context, on *connection) error {
	w.server = on.server
	renamed, recovered := w.source.renamed.next(), w.source.recovered.next()
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
		return explainEnd(on.server, err)
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

// event applies an event.
func (w *streamWatch) event(e *subscribe.Event) error {
	if w.bell != nil {
		w.ring(e)
		return nil
	}
	effects, err := w.view.apply(e)
	if err != nil {
		return &failure{text: "Consul's events have not the expected shape: " + err.Error(), cause: err}
	}
	switch {
	case !w.view.live() && !w.view.ended:
		w.to.mode(ModeSnapshot)
		w.settle.Reset(w.source.limits.Silence)
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
		for _, e := range effects {
			w.sweep(e.put)
		}
	}
	return nil
}

// ring has the topic read when an event asks for it.
func (w *streamWatch) ring(e *subscribe.Event) {
	was := w.bell.live
	if w.bell.apply(e) {
		w.doubts.raise()
	}
	w.to.heard(w.bell.index)
	switch {
	case !w.bell.live:
		w.to.mode(ModeSnapshot)
		w.settle.Reset(w.source.limits.Silence)
	case !was:
		w.settle.Reset(0)
	}
}

// merged has registrations read when the configuration that is merged into them has changed.
func (w *streamWatch) merged() {
	if w.central.changed() {
		w.doubts.raiseWithin(w.source.spread(0))
	}
}

// sweep has the whole read from time to time where events do not tell all: that an instance which spoke
// the mesh protocol itself does so no more.
func (w *streamWatch) sweep(news ...*facts.Instance) {
	native := func(in *facts.Instance) bool { return in != nil && in.Service.Connect.Native }
	if w.to.topic.Kind == facts.TopicConnect && w.swept == nil && slices.ContainsFunc(news, native) {
		wait := w.source.limits.Wait
		w.swept = time.NewTimer(wait - rand.N(wait/sweepSpread))
	}
}

// sweepAll is sweep for all there are.
func (w *streamWatch) sweepAll() {
	list, _ := w.to.store.View().Instances(w.to.topic)
	w.sweep(list...)
}

// sweepSpread is the part of [Limits.Wait] over which sweeps are spread.
const sweepSpread = 5

func (w *streamWatch) sweepDue() <-chan time.Time {
	if w.swept == nil {
		return nil
	}
	return w.swept.C
}

// settled commits a snapshot, or, when the view is live already, notes that the stream is good.
func (w *streamWatch) settled() {
	w.failing = 0
	w.retry.Reset()
	w.to.mode(ModeStreaming)
	w.to.served(w.server)
	w.to.works(w.doubts.failing)
	if w.live() {
		return
	}
	index := w.view.index
	list := w.view.settle()
	if index < w.to.known {
		w.late(list, index)
	} else {
		w.doubts.overtake()
		out := w.to.snapshot(list, index)
		w.missing.note(list, out.Suspects > 0, index)
		w.doubts.judge(out)
	}
	if w.reset {
		w.reset = false
		w.doubts.raise()
	}
	w.sweepAll()
}

// late takes a snapshot from before what is known, as from a server that is behind the others: it would
// bring back what is gone. What that server tells of the time up to there has no effect. Where it is what
// is known that is of no time any more, a reading shows it.
func (w *streamWatch) late(list []*facts.Instance, index uint64) {
	w.view.read(w.to.known)
	w.to.heard(index)
	w.missing.note(list, true, index)
	if !w.doubts.reading {
		w.doubts.raise()
	}
}

// answered commits the reading of the whole, and what has happened since.
func (w *streamWatch) answered(r reading) {
	later, ok, err := w.doubts.take(r)
	if !ok {
		w.to.failed(err)
		return
	}
	w.missing.confirmed = r.seen
	if r.answer.index < w.doubts.known { // the leader has no delay: it was restored
		w.to.known, w.view.floor = 0, 0
	}
	later = slices.DeleteFunc(later, func(e effect) bool { return e.index <= r.answer.index })
	out, err := w.to.commitSince(r.answer, facts.Reading{Confirmed: r.seen, Reset: true}, later)
	if err != nil {
		w.doubts.failed(err)
		w.to.failed(err)
		return
	}
	w.view.read(r.answer.index)
	if w.bell != nil {
		w.bell.read = r.answer.index
	}
	w.doubts.resolved(out, r)
	w.sweepAll()
}

// firstRead is how long the first reading may hold up the stream.
const firstRead = time.Second

// readFirst reads a topic by a query: a snapshot would need one anyway to confirm what it lacks, the
// query does not wait for a connection, and it says why when there is nothing to be had, where events
// just do not come.
func (w *streamWatch) readFirst(ctx context.Context) {
	w.to.mode(ModeReading)
	w.doubts.look(ctx)
	enough := time.NewTimer(firstRead)
	defer enough.Stop()
	select {
	case r := <-w.doubts.answers:
		w.answered(r)
	case <-enough.C: // the stream takes the answer when it comes
	case <-ctx.Done():
	}
}
