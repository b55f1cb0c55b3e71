package hds

import "time"

// firstResult is how long after a checker was told its first probe of an endpoint has ended for certain:
// the slack is for an Envoy that begins thousands at once.
func (p Probe) firstResult() time.Duration {
	const slack = 250 * time.Millisecond
	return p.initialJitter() + p.Timeout + slack
}

// vote is what the ballot says now, and whether it may say something else once the voter reports again,
// even the same.
func (b *ballot) vote() (v Vote, waits bool) {
	if b.told.IsZero() || b.voter.silent {
		return NoVote, false
	}
	switch b.status {
	case StatusHealthy:
		return VoteUp, false
	case StatusAnswered:
		return VoteDown, false
	case StatusTimeout:
		return VoteTimeout, false
	case StatusUnhealthy:
		// Envoy says so of an endpoint too whose first probe has not ended. The clock alone does not tell: both the
		// duty and the report may have been long on their way.
		first := b.probe.firstResult()
		if b.voter.heard.Before(b.told.Add(first)) || b.voter.clock-b.seen < first {
			return NoVote, true
		}
		return VoteDown, false
	default:
		return NoVote, false
	}
}

// repeated reports whether the voter has reported the same again.
func (b *ballot) repeated() bool { return b.voter.reports > b.report }

// cast returns the record's ballots.
func (r *record) cast(into []Ballot) []Ballot {
	for i := range r.ballots {
		b := &r.ballots[i]
		c := b.voter.checker
		vote, _ := b.vote()
		into = append(into, Ballot{Checker: c.ID, Place: Place{c.Region, c.Zone}, Vote: vote, Repeated: b.repeated()})
	}
	return into
}

// await has the record weighed again at the next report of those whose vote that may change.
func (r *record) await() {
	for i := range r.ballots {
		b := &r.ballots[i]
		vote, waits := b.vote()
		if waits || (len(r.ballots) == 1 && vote != NoVote && !b.repeated()) {
			b.voter.awaited[r] = struct{}{}
		}
	}
}

// weigh counts a record's votes, and returns the verdict to have if that is another one and its time has
// come. It sets the time at which to look again.
func (v *Verdicts) weigh(r *record, now time.Time) (Verdict, bool) {
	var room [maxCheckers]Ballot
	r.tally = Count(Place{r.duty.Region, r.duty.Zone}, r.cast(room[:0]))
	r.await()
	want, due, ok := v.ready(r, now)
	again := !due.IsZero() && !r.due.Equal(due)
	if r.due = due; again {
		v.timers.add(r, len(v.records))
	}
	return want, ok
}

// ready decides whether what the votes come to is to be the verdict now, or when it would be.
func (v *Verdicts) ready(r *record, now time.Time) (want Verdict, later time.Time, ok bool) {
	v.noteSplit(r, now)
	want = r.tally.Verdict
	if want == Unknown {
		r.want = Unknown
		if r.verdict == Unknown {
			return Unknown, time.Time{}, false
		}
		if r.lost.IsZero() {
			r.lost = now
		}
		// Silence says nothing: the verdict stays for a while, and is then no longer known.
		until := r.lost.Add(v.hold)
		return Unknown, after(until, now), !now.Before(until)
	}
	r.lost = time.Time{}
	if want != r.want {
		r.want, r.wantSince = want, now
	}
	if want == r.verdict {
		return want, time.Time{}, false
	}
	until := r.wantSince
	switch {
	case r.verdict == Down && want == Up:
		until = until.Add(max(2*r.duty.Probe.Interval, r.flaps.hold()))
	case want == Down && r.splitCounts():
		// Others may only be slower to see it. Once they have looked again, it is the zone that is cut off.
		return want, after(r.split.Add(v.splitRipens(r)), now), false
	}
	return want, after(until, now), !now.Before(until)
}

// after is the time if it is still to come.
func after(t, now time.Time) time.Time {
	if t.After(now) {
		return t
	}
	return time.Time{}
}

func (v *Verdicts) noteSplit(r *record, now time.Time) {
	switch {
	case r.tally.Split != OneZone:
		r.split = time.Time{}
		delete(r.service.splits, r)
	case r.split.IsZero():
		r.split = now
		r.service.splits[r] = struct{}{}
	}
}

// splitCounts is false in services so small that the brake is not for them.
func (r *record) splitCounts() bool {
	return r.tally.Split == OneZone && r.service.endpoints() >= smallService
}

// splitRipens is how long it takes every checker to look again and report.
func (v *Verdicts) splitRipens(r *record) time.Duration {
	p := r.duty.Probe
	return p.Interval + p.Timeout + v.interval
}

// Flapping: more than flipsAllowed changes in flapWindow.
const (
	flipsAllowed = 5
	flapWindow   = time.Minute
	flapHold     = 10 * time.Second
	flapCalm     = 5 * time.Minute
	maxFlapLevel = 6
)

// flaps damps an endpoint that goes up and down: it stays down longer each time.
type flaps struct {
	times [flipsAllowed + 1]time.Time
	next  int
	level int
}

// flip notes a change between up and down.
func (f *flaps) flip(now time.Time, to Verdict) {
	latest := f.times[(f.next+len(f.times)-1)%len(f.times)]
	if now.Sub(latest) > flapCalm {
		f.level = 0
	}
	f.times[f.next] = now
	f.next = (f.next + 1) % len(f.times)
	oldest := f.times[f.next]
	if to == Down && (f.level > 0 || (!oldest.IsZero() && now.Sub(oldest) <= flapWindow)) {
		f.level = min(f.level+1, maxFlapLevel)
	}
}

// hold is how long the endpoint must look well before it is up.
func (f *flaps) hold() time.Duration {
	if f.level == 0 {
		return 0
	}
	return min(flapHold<<(f.level-1), flapCalm)
}
