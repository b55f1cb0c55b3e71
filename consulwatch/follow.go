package consulwatch

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// A follower follows one topic until ctx ends: it commits what Consul says of it and records
// failures.
type follower func(ctx context.Context, to *sink)

// shortestWait keeps a wait from being rounded to none, which Consul takes for its default.
const shortestWait = 50 * time.Millisecond

// The causes for which a query that waits is called back.
var (
	errRestored = errors.New("another query found signs of a restore")
	errTurns    = errors.New("connections have become scarce or plenty")
	errCentral  = errors.New("central configuration has changed")
)

// errAbandoned means that Consul gave up a blocking query, as it does when its state is restored, or
// went back in time.
var errAbandoned = errors.New("consul gave up the query or went back in time")

// watch is the state of following one topic by blocking queries.
type watch struct {
	source  *Source
	to      *sink
	query   query
	waits   query // what is asked to wait for a change
	slotted bool  // it takes turns when connections are scarce

	// index is Consul's index of the last answer, from is the backend that gave it: only indexes of
	// one backend can be compared. Index 0 asks for the whole. backend is what answers queries that
	// wait, once one was answered.
	index         uint64
	from, backend string

	// central is the configuration that was merged into the last whole reading.
	central central

	// restored is closed when signs of a restore were found since the last whole reading.
	restored <-chan struct{}

	// While it is in doubt whether what is missing is gone, the whole is read again from time to time.
	doubt    bool
	suspects int
	filtered bool // something was hidden from the last answer that can tell
	recheck  time.Time

	limited        bool // by the limits of Consul, when it was asked last
	retry, confirm *backoff.ExponentialBackOff
}

func (s *Source) newWatch(to *sink) *watch {
	q := queryFor(to.topic, s.datacenterOf(to.topic))
	waits := q
	waits.merge = false // with central configuration Consul does not always notice that the last one goes
	return &watch{
		source: s, to: to, query: q, waits: waits, slotted: !s.always(to.topic),
		retry:   exponential(s.limits.RetryMin, s.limits.RetryMax),
		confirm: exponential(s.limits.RetryMin, s.limits.ConfirmMax),
	}
}

// datacenterOf returns the datacenter to ask for a topic; empty is the agent's own. What is of no certain
// datacenter, such as config entries, is asked of the one that is configured.
func (s *Source) datacenterOf(topic facts.Topic) string {
	return cmp.Or(topic.Datacenter, s.datacenter)
}

// exponential returns a backoff that doubles, each time give or take half.
func exponential(least, most time.Duration) *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier = least, most, 2
	b.Reset()
	return b
}

// followBlocking is the [follower] by blocking queries.
func (s *Source) followBlocking(ctx context.Context, to *sink) {
	w := s.newWatch(to)
	if w.slotted {
		s.slots.enter()
		defer s.slots.leave()
	}
	for ctx.Err() == nil {
		start := time.Now()
		if err := w.step(ctx); err != nil {
			w.failed(ctx, err)
			continue
		}
		pause(ctx, s.limits.Pace-time.Since(start), nil)
	}
}

func (w *watch) step(ctx context.Context) error {
	if w.index == 0 || w.doubt && !time.Now().Before(w.recheck) {
		return w.read(ctx)
	}
	return w.wait(ctx)
}

// failed records a failure and waits before the next attempt.
func (w *watch) failed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	recovered := w.source.recovered.next()
	var f *failure
	switch {
	case errors.Is(err, errAbandoned):
		w.index = 0
		w.source.suspectRestore()
	case errors.As(err, &f) && f.limited:
		recovered = nil // what others are answered is no reason to be less patient
		w.limited = true
		w.to.fail(err)
	default:
		w.index = 0 // who answers next may be another server, or one with other data
		w.to.fail(err)
	}
	w.to.mode(ModeRetrying)
	if pause(ctx, w.retry.NextBackOff(), recovered) {
		w.spread(ctx)
	}
}

// spread keeps the topics from asking Consul all at once when something wakes them all.
func (w *watch) spread(ctx context.Context) {
	pause(ctx, w.source.spread(2*w.source.limits.RetryMin), nil)
}

// spreadTopic is how much more time all topics get for what wakes them all, for each topic.
const spreadTopic = 200 * time.Microsecond

// spread returns how long one topic waits before what all of them do at once, so that Consul is not asked
// for everything in one moment. They get at least a certain time.
func (s *Source) spread(least time.Duration) time.Duration {
	s.mu.Lock()
	topics := len(s.following)
	s.mu.Unlock()
	return rand.N(max(least, time.Duration(topics)*spreadTopic, 1))
}

// read asks for the whole of the topic, from the leader. Such an answer has no delay, so an index in
// it that is lower than one seen before means that Consul was restored; and together with the
// token's rights it confirms what is not there.
func (w *watch) read(ctx context.Context) error {
	release, err := w.acquire(ctx)
	if err != nil {
		return err
	}
	w.to.mode(ModeReading)
	w.restored = w.source.restored.next()
	w.central = newCentral(w.to)
	a, err := w.source.ask(ctx, w.query, 0, 0)
	release()
	if err != nil {
		return err
	}
	seen := !a.filtered
	if seen {
		if seen, err = w.source.rights.verified(ctx, a.token); err != nil {
			return err
		}
	}
	if a.index < w.to.known { // the leader has no delay: it was restored
		w.to.known = 0
	}
	out, err := w.to.commit(a, facts.Reading{Confirmed: seen, Reset: true})
	if err != nil {
		return err
	}
	w.filtered = a.filtered
	w.index, w.from, w.backend = a.index, a.backend, ""
	if w.waits != w.query {
		w.from = "" // the index is that of another query
	}
	w.judge(out)
	if w.doubt {
		w.recheck = time.Now().Add(w.confirm.NextBackOff())
	}
	if w.doubt && !seen {
		w.to.hidden(hiddenReason(a.filtered))
	} else {
		w.to.hidden("")
	}
	return nil
}

// wait asks for what is newer than the last answer.
func (w *watch) wait(ctx context.Context) error {
	var turns <-chan struct{}
	if w.slotted {
		turns = w.source.slots.changed.next()
	}
	release, err := w.acquire(ctx)
	if err != nil {
		return err
	}
	patience := w.patience()
	waiting, end := until(ctx, w.restored, turns, w.central.next)
	a, err := w.source.ask(waiting, w.waits, w.index, patience)
	cause := end()
	release()
	switch {
	case errors.Is(cause, errCentral):
		if w.central.changed() {
			w.index = 0
			w.spread(ctx)
		}
		return nil
	case errors.Is(cause, errRestored):
		w.index = 0
		w.spread(ctx)
		return nil
	case err == nil:
		return w.take(a, patience)
	case errors.Is(cause, errTurns):
		return nil
	}
	return err
}

// take makes what is to be made of the answer to a blocking query.
func (w *watch) take(a answer, patience time.Duration) error {
	if w.backend != "" && w.backend != a.backend {
		w.index = 0
		return nil
	}
	w.backend, w.limited = a.backend, false
	if a.filtered && !w.filtered {
		w.filtered = true
		w.index = 0 // the whole shows what of it is missing
		return nil
	}
	if w.from == a.backend {
		early := a.took < patience-patience/10
		switch {
		case a.index < w.index, a.index == w.index && early:
			return errAbandoned
		case a.index == w.index:
			w.retry.Reset()
			w.to.unchanged(a)
			return nil
		}
	}
	if w.waits != w.query {
		w.retry.Reset()
		w.index, w.from = a.index, a.backend
		if !w.to.registered(a) {
			w.index = 0 // what is new is read with central configuration
		}
		return nil
	}
	out, err := w.to.commit(a, facts.Reading{})
	if err != nil {
		return err
	}
	w.retry.Reset()
	w.index, w.from = a.index, a.backend
	w.judge(out)
	return nil
}

// judge decides from what a commit did whether it is in doubt what is there. New doubt is looked
// into at once. That something is hidden, only a reading of the whole can take back.
func (w *watch) judge(out facts.Outcome) {
	doubt := out.Suspects > 0 || out.Older > 0 || out.Unconfirmed || w.filtered
	if doubt && (out.Suspects > w.suspects || out.Older > 0 || !w.doubt) {
		w.recheck = time.Now()
		w.confirm.Reset()
	}
	w.doubt, w.suspects = doubt, out.Suspects
	if !doubt {
		w.to.hidden("")
	}
}

// patience is how long the next blocking query waits.
func (w *watch) patience() time.Duration {
	mode, d := ModeBlocking, w.source.limits.Wait
	if w.slotted && w.source.slots.crowded() {
		mode, d = ModeTurns, w.source.limits.Turn
	}
	w.to.mode(mode)
	d -= rand.N(d/10 + 1)
	if w.limited {
		d = min(d, w.source.limits.Turn) // an answer shows that it is over
	}
	if w.doubt {
		d = min(d, time.Until(w.recheck))
	}
	return max(d, shortestWait)
}

func (w *watch) acquire(ctx context.Context) (func(), error) {
	if !w.slotted {
		return func() {}, nil
	}
	return w.source.slots.acquire(ctx)
}

// until returns a context that also ends when a restore is signalled, that turns have begun or ended, or
// that central configuration has changed. The returned function ends it and returns which of these ended
// it before, if any.
func until(ctx context.Context, restored, turns, central <-chan struct{}) (context.Context, func() error) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-restored:
			cancel(errRestored)
		case <-turns:
			cancel(errTurns)
		case <-central:
			cancel(errCentral)
		case <-ctx.Done():
		}
	}()
	return ctx, func() error {
		cancel(nil)
		<-done
		return context.Cause(ctx)
	}
}

// pause waits for a while and reports whether the channel ended it early.
func pause(ctx context.Context, d time.Duration, early <-chan struct{}) bool {
	if d <= 0 {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-early:
		return true
	}
	return false
}
