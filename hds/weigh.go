package hds

import "time"

// vote is what the ballot says now, and when it may say something else without a report: zero for never.
func (b *ballot) vote(now time.Time, interval time.Duration) (Vote, time.Time) {
	if b.told.IsZero() || b.voter.silent {
		return NoVote, time.Time{}
	}
	switch b.status {
	case StatusHealthy:
		return VoteUp, time.Time{}
	case StatusAnswered:
		return VoteDown, time.Time{}
	case StatusTimeout:
		return VoteTimeout, time.Time{}
	case StatusUnhealthy:
		// Envoy says so of an endpoint too whose first probe has not ended.
		if ripe := b.told.Add(b.probe.ripens(interval)); now.Before(ripe) {
			return NoVote, ripe
		}
		return VoteDown, time.Time{}
	default:
		return NoVote, time.Time{}
	}
}

// ripens is how long after a checker was told the first probe has ended for certain, and been reported.
func (p Probe) ripens(report time.Duration) time.Duration {
	return p.initialJitter() + p.Interval + p.Timeout + report
}

// cast returns the record's ballots, and when they may be others without a report.
func (r *record) cast(now time.Time, interval time.Duration, into []Ballot) ([]Ballot, time.Time) {
	var due time.Time
	for i := range r.ballots {
		b := &r.ballots[i]
		vote, later := b.vote(now, interval)
		due = earlier(due, later)
		c := b.voter.checker
		into = append(into, Ballot{
			Checker: c.ID, Place: Place{c.Region, c.Zone}, Vote: vote,
			Repeated: b.voter.reports > b.report,
		})
	}
	return into, due
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// weigh counts a record's votes, and returns the verdict to have if that is another one and its time has
// come. It sets the time at which to look again.
func (v *Verdicts) weigh(r *record, now time.Time) (Verdict, bool) {
	var room [maxCheckers]Ballot
	ballots, due := r.cast(now, v.interval, room[:0])
	r.tally = Count(Place{r.duty.Region, r.duty.Zone}, ballots)
	if len(ballots) == 1 && ballots[0].Vote != NoVote && !ballots[0].Repeated {
		w := r.ballots[0].voter
		w.lone = append(w.lone, r)
	}
	want, later, ok := v.ready(r, now)
	due = earlier(due, later)
	if !due.IsZero() && !r.due.Equal(due) {
		v.timers.add(due, r)
	}
	r.due = due
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
