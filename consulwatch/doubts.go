package consulwatch

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/sync/semaphore"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// readingPause is how many times as long as a reading took there is none after it.
const readingPause = 4

// confirming is how many readings that resolve doubts are made at once in a datacenter: when a stream is
// lost they are due for all topics, and a datacenter that hangs holds up only its own.
const confirming = 8

// doubts is whether it is in doubt what a topic followed by events lacks, and the readings of the whole
// that resolve it. Events never can: denied looks like empty to them. Only the follower calls it.
type doubts struct {
	source *Source
	to     *sink
	query  query
	turns  *turns
	wait   *backoff.ExponentialBackOff // between readings that leave doubt
	retry  *backoff.ExponentialBackOff // between readings that fail

	raised   bool
	suspects int
	filtered bool // the last reading had something hidden from it
	timer    *time.Timer

	// While readings fail the next is due at a certain time, whatever else asks for one: trouble is not
	// asked about more often because much happens.
	failing bool
	limited bool // by the limits of Consul
	next    time.Time

	answers chan reading // the outcome of the reading that is under way
	reading bool
	known   uint64        // what the topic was known up to when it began
	stale   bool          // a snapshot was committed since it began
	rung    bool          // another reading was asked for since it began
	ended   time.Time     // when the last reading ended
	took    time.Duration // what it took
	cancel  context.CancelFunc
	running sync.WaitGroup
	// since is what happened since the reading began, for what is not in it yet.
	since map[instanceKey]effect
}

// reading is the outcome of a reading of the whole.
type reading struct {
	answer answer
	seen   bool // nothing can have been hidden
	err    error
}

func (s *Source) newDoubts(to *sink) *doubts {
	d := &doubts{
		source: s, to: to, query: queryFor(to.topic, s.datacenterOf(to.topic)), answers: make(chan reading, 1),
		wait:  exponential(s.limits.RetryMin, s.limits.ConfirmMax),
		retry: exponential(s.limits.RetryMin, s.limits.RetryMax), timer: time.NewTimer(0),
	}
	d.turns = s.enterTurns(d.query.dc)
	d.timer.Stop()
	return d
}

// turns bounds the readings of a datacenter.
type turns struct {
	*semaphore.Weighted
	topics int // how many there are; Source.mu is held
}

// enterTurns returns the turns of a datacenter, which are kept until leaveTurns was called as often.
func (s *Source) enterTurns(datacenter string) *turns {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.confirms[datacenter]
	if t == nil {
		t = &turns{Weighted: semaphore.NewWeighted(confirming)}
		s.confirms[datacenter] = t
	}
	t.topics++
	return t
}

func (s *Source) leaveTurns(datacenter string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.confirms[datacenter]; t.topics > 1 {
		t.topics--
		return
	}
	delete(s.confirms, datacenter)
}

// due receives when a reading is to be made.
func (d *doubts) due() <-chan time.Time { return d.timer.C }

// judge decides from what a commit did whether there is doubt. New doubt is looked into at once. That
// something is hidden, only another reading can take back.
func (d *doubts) judge(out facts.Outcome) {
	doubt := out.Suspects > 0 || out.Older > 0 || out.Unconfirmed || d.filtered
	fresh := doubt && (out.Suspects > d.suspects || out.Older > 0 || !d.raised)
	d.raised, d.suspects = doubt, out.Suspects
	switch {
	case fresh:
		d.raise()
	case !doubt:
		if !d.failing { // else the next reading shows whether it is over
			d.timer.Stop()
		}
		d.to.hidden("")
	}
}

// raise has the whole read: at once, but what is large is not read all the time, nor what fails. What is
// raised while a reading is under way is for the next.
func (d *doubts) raise() {
	d.raised, d.rung = true, d.reading
	at := d.ended.Add(max(d.source.limits.Pace, readingPause*d.took))
	if d.failing {
		at = d.next
	} else {
		d.wait.Reset()
	}
	d.timer.Reset(time.Until(at))
}

// raiseWithin is raise after a while, unless a reading is due before.
func (d *doubts) raiseWithin(wait time.Duration) {
	if d.raised || d.failing {
		d.raise()
		return
	}
	d.raised, d.rung = true, d.reading
	d.timer.Reset(wait)
}

// again has the whole read after a while.
func (d *doubts) again() { d.timer.Reset(d.wait.NextBackOff()) }

// failed has what could not be read tried again after a while.
func (d *doubts) failed(err error) {
	var f *failure
	d.failing, d.limited = true, errors.As(err, &f) && f.limited
	d.retryIn(d.retry.NextBackOff())
}

func (d *doubts) retryIn(wait time.Duration) {
	d.next = time.Now().Add(wait)
	d.timer.Reset(wait)
}

// succeeded ends the failing.
func (d *doubts) succeeded() {
	d.failing = false
	d.retry.Reset()
}

// hasten has what could not be read tried again soon, because Consul answers again. Where it asked for
// patience, what others are answered says nothing.
func (d *doubts) hasten() {
	if d.failing && !d.limited && !d.reading {
		d.retryIn(d.source.spread(2 * d.source.limits.RetryMin))
	}
}

// look begins a reading, if none is under way.
func (d *doubts) look(ctx context.Context) {
	if d.reading {
		return // what it does not resolve is looked into again
	}
	ctx, d.cancel = context.WithCancel(ctx)
	d.begin()
	d.running.Go(func() { d.answers <- d.read(ctx) })
}

// begin notes that a reading begins.
func (d *doubts) begin() {
	d.reading, d.stale, d.rung = true, false, false
	d.known, d.since = d.to.known, map[instanceKey]effect{}
}

func (d *doubts) read(ctx context.Context) (r reading) {
	if !d.source.always(d.to.topic) {
		if r.err = d.turns.Acquire(ctx, 1); r.err != nil {
			return r
		}
		defer d.turns.Release(1)
	}
	if r.answer, r.err = d.source.ask(ctx, d.query, 0, 0); r.err == nil && !r.answer.filtered {
		r.seen, r.err = d.source.rights.verified(ctx, r.answer.token)
	}
	return r
}

// later remembers effects that the reading under way may not have.
func (d *doubts) later(effects []effect) {
	if !d.reading {
		return
	}
	for _, e := range effects {
		d.since[e.key] = e
	}
}

// overtake tells that a snapshot was committed, which may be newer than the reading under way.
func (d *doubts) overtake() { d.stale = true }

// take ends a reading and returns what happened since it began; ok is false when it is of no use.
func (d *doubts) take(r reading) (since []effect, ok bool, err error) {
	d.finish(r.answer.took)
	switch {
	case errors.Is(r.err, context.Canceled):
		d.resume()
		return nil, false, nil
	case r.err != nil:
		d.failed(r.err)
		return nil, false, r.err
	case d.stale:
		d.succeeded()
		d.raise()
		return nil, false, nil
	}
	later := make([]effect, 0, len(d.since))
	for _, e := range d.since {
		later = append(later, e)
	}
	d.since = nil
	return later, true, nil
}

// resolved judges by what a reading did.
func (d *doubts) resolved(out facts.Outcome, r reading) {
	d.succeeded()
	d.filtered, d.suspects = r.answer.filtered, out.Suspects
	d.raised = out.Suspects > 0 || out.Unconfirmed || d.filtered
	hidden := ""
	if d.raised && !r.seen {
		hidden = hiddenReason(r.answer.filtered)
	}
	d.to.hidden(hidden)
	switch {
	case d.rung:
		d.raise()
	case d.raised:
		d.again()
	default:
		d.wait.Reset()
		d.timer.Stop()
	}
}

func (d *doubts) finish(took time.Duration) {
	d.cancel()
	d.running.Wait()
	d.reading, d.ended, d.took = false, time.Now(), took
}

// stop ends the reading that is under way; it begins again when there is a stream.
func (d *doubts) stop() {
	if !d.reading {
		return
	}
	d.finish(0)
	<-d.answers
	d.since = nil
	d.resume()
}

// resume has the next stream begin the reading that has ended with the last.
func (d *doubts) resume() {
	if d.failing {
		d.retryIn(d.retry.NextBackOff())
		return
	}
	d.timer.Reset(0)
}

// end is stop for good.
func (d *doubts) end() {
	d.stop()
	d.timer.Stop()
	d.source.leaveTurns(d.query.dc)
}
