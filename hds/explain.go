package hds

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Explanation is all there is to say of an endpoint, for people.
type Explanation struct {
	Duty    Duty
	Verdict Verdict
	// Since is when the verdict was made; zero for none.
	Since  time.Time
	Why    string
	Frozen bool
	Votes  []CastVote
}

// CastVote is a checker's vote on an endpoint, and why it is so.
type CastVote struct {
	Checker string
	Vote    Vote
	// Since is when a report first said so; zero where none has.
	Since  time.Time
	Reason string
}

// Explain says how an endpoint came to its verdict; it is false for one that is not there.
func (v *Verdicts) Explain(k Key) (Explanation, bool) {
	r, ok := v.records[k]
	if !ok {
		return Explanation{}, false
	}
	return v.explain(r), true
}

func (v *Verdicts) explain(r *record) Explanation {
	e := Explanation{Duty: r.duty, Verdict: r.verdict, Since: r.since, Frozen: r.service.freeze != nil}
	ballots := r.cast(nil)
	tally := Count(Place{r.duty.Region, r.duty.Zone}, ballots)
	for i := range r.ballots {
		b := &r.ballots[i]
		vote := CastVote{Checker: b.voter.checker.ID, Vote: ballots[i].Vote, Reason: b.reason(ballots[i].Vote)}
		if b.status != NotReported {
			vote.Since = b.since
		}
		e.Votes = append(e.Votes, vote)
	}
	slices.SortFunc(e.Votes, func(a, b CastVote) int { return strings.Compare(a.Checker, b.Checker) })
	e.Why = v.why(r, tally)
	return e
}

func (b *ballot) reason(vote Vote) string {
	switch {
	case b.told.IsZero():
		return "not told yet: a new kind of probe is tried by one checker first"
	case b.voter.silent:
		return "the checker is silent"
	case b.status == NotReported:
		return "not reported yet"
	case vote == NoVote:
		return "its first probe may not have ended"
	case b.code != 0:
		return fmt.Sprintf("answered with status %d", b.code)
	case vote == VoteTimeout:
		return "no answer in time"
	case vote == VoteDown:
		return "refused, or not answered as it should"
	}
	return ""
}

// why says what keeps the verdict from being what the votes come to, or what they come to.
func (v *Verdicts) why(r *record, t Tally) string {
	counted := fmt.Sprintf("%d up and %d down of %d checkers", t.Up, t.Down, t.Checkers)
	if t.Checkers == 1 {
		counted = fmt.Sprintf("%d up and %d down of 1 checker", t.Up, t.Down)
	}
	switch {
	case r.service.freeze != nil:
		return "kept: " + r.service.freeze.reason
	case t.Checkers == 0:
		return "no checker probes it"
	case t.Verdict == Unknown && r.verdict != Unknown:
		return "kept for a while, without a quorum: " + counted
	case t.Verdict == Unknown && t.Checkers == 1 && t.Up+t.Down == 1:
		return "its only checker is to say so twice: " + counted
	case t.Verdict == Unknown:
		return "no quorum: " + counted
	case t.Split == Remote:
		return "its own zone reaches it, and others do not: " + counted
	case t.Split == OneZone && r.verdict != Down:
		return fmt.Sprintf("kept: only zone %q finds it down: %s", t.DownInZone.Zone, counted)
	case t.Verdict != r.verdict && r.flaps.level > 0:
		return "kept, because it goes up and down: " + counted
	case t.Verdict != r.verdict:
		return "about to change: " + counted
	}
	return counted
}

// Totals are the numbers of endpoints, for metrics.
type Totals struct {
	Endpoints, Up, Down, Unknown int
	Frozen, Split                int
	Votes, Silent                int
}

// Totals counts everything.
func (v *Verdicts) Totals() Totals {
	t := Totals{Endpoints: len(v.records)}
	for _, r := range v.records {
		switch r.verdict {
		case Up:
			t.Up++
		case Down:
			t.Down++
		case Unknown:
			t.Unknown++
		}
		if r.service.freeze != nil {
			t.Frozen++
		}
		if r.tally.Split != NoSplit {
			t.Split++
		}
		t.Votes += r.tally.Up + r.tally.Down
		t.Silent += r.tally.Checkers - r.tally.Up - r.tally.Down
	}
	return t
}
