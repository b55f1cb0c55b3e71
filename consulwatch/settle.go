package consulwatch

import (
	"context"
	"slices"
	"time"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/proto/subscribe"
)

// Consul keeps a snapshot for 10 s: the end of one says only how it was then, and what happened since
// is replayed. So a snapshot counts when events have paused for settleTime, or come for settleMost.
const (
	settleTime = 50 * time.Millisecond
	settleMost = time.Second
)

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
	default:
		w.doubts.later(effects)
		w.commit(slices.DeleteFunc(effects, func(e effect) bool { return e.old }))
	}
	return nil
}

// commit commits what live events did.
func (w *streamWatch) commit(effects []effect) {
	if len(effects) == 0 {
		return
	}
	if w.to.effects(effects, w.view.index) {
		w.doubts.raise()
	}
	for _, e := range effects {
		w.sweep(e.put)
	}
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
