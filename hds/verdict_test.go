package hds

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// bench is verdicts with a clock and checkers that are told everything.
type bench struct {
	t        *testing.T
	now      time.Time
	v        *Verdicts
	checkers []Checker
	duties   []Duty
	said     map[string]map[Key]Status
	changes  []Change
}

// newBench has m endpoints of one service, and a checker for each zone that is named.
func newBench(t *testing.T, m int, zones ...string) *bench {
	b := &bench{t: t, now: time.Unix(1_000_000, 0), v: NewVerdicts(VerdictsConfig{ReportInterval: time.Second}), said: map[string]map[Key]Status{}}
	for i := range m {
		b.duties = append(b.duties, duty(i, "", ""))
		b.duties[i].Service = "api"
	}
	b.v.Put(b.duties...)
	for i, z := range zones {
		b.join(checker(i, "", z))
	}
	return b
}

func (b *bench) join(c Checker) {
	b.checkers = append(b.checkers, c)
	b.said[c.ID] = map[Key]Status{}
	b.v.Assign(b.now, c, b.duties, nil)
}

// say has a checker report a status of endpoints.
func (b *bench) say(checker int, s Status, endpoints ...int) {
	var seen []Observation
	id := b.checkers[checker].ID
	for _, i := range endpoints {
		seen = append(seen, Observation{Key: b.duties[i].Key, Status: s})
	}
	b.v.Report(b.now, id, seen)
}

func (b *bench) sayAll(s Status, endpoints ...int) {
	for i := range b.checkers {
		b.say(i, s, endpoints...)
	}
}

func (b *bench) every() []int {
	var all []int
	for i := range b.duties {
		all = append(all, i)
	}
	return all
}

// pass lets time go by in which these checkers, or all, report as before.
func (b *bench) pass(d time.Duration, reporting ...int) {
	for end := b.now.Add(d); b.now.Before(end); {
		b.now = b.now.Add(min(250*time.Millisecond, end.Sub(b.now)))
		for i := range b.checkers {
			if len(reporting) == 0 || slices.Contains(reporting, i) {
				b.say(i, StatusHealthy)
			}
		}
		b.settle()
	}
}

func (b *bench) settle() { b.changes = append(b.changes, b.v.Settle(b.now)...) }

func (b *bench) want(verdicts string) {
	b.t.Helper()
	b.settle()
	var got []string
	for _, d := range b.duties {
		got = append(got, b.v.Verdict(d.Key).String())
	}
	if s := strings.Join(got, " "); s != verdicts {
		e, _ := b.v.Explain(b.duties[0].Key)
		b.t.Fatalf("the verdicts are %s, and should be %s (of the first: %s, %+v; freezes %v)", s, verdicts, e.Why, e.Votes, b.v.Freezes())
	}
}

func TestNoVerdictBeforeTheFirstProbeCanHaveEnded(t *testing.T) {
	b := newBench(t, 1, "", "", "")
	b.pass(500 * time.Millisecond)
	b.sayAll(StatusUnhealthy, 0)
	b.want("unknown")
	b.pass(900 * time.Millisecond)
	b.want("unknown")
	b.now = b.now.Add(time.Second)
	b.want("unknown") // whoever has not reported since may know better by now
	b.say(0, StatusHealthy)
	b.want("unknown")
	b.say(1, StatusHealthy)
	b.want("down")
}

func TestAnAnswerIsProofOfAProbe(t *testing.T) {
	for status, want := range map[Status]string{StatusHealthy: "up", StatusAnswered: "down", StatusTimeout: "down", StatusOther: "unknown", StatusUnhealthy: "unknown"} {
		b := newBench(t, 1, "", "", "")
		b.sayAll(status, 0)
		b.want(want)
	}
}

func TestOneWhoLiesDoesNotDecide(t *testing.T) {
	b := newBench(t, 3, "a", "b", "c")
	b.say(0, StatusAnswered, 0, 1, 2)
	b.want("unknown unknown unknown")
	b.say(1, StatusHealthy, 0, 1, 2)
	b.want("up up up")
	b.say(2, StatusHealthy, 0, 1, 2)
	b.pass(5 * time.Minute)
	b.want("up up up")
	if len(b.changes) != 3 {
		t.Errorf("changes: %v", b.changes)
	}
}

func TestTheLiarIsNotAloneWhileOthersAreToldOrSilent(t *testing.T) {
	b := newBench(t, 1, "a")
	b.v.Assign(b.now, checker(7, "", ""), nil, b.duties)
	b.say(0, StatusAnswered, 0)
	b.pass(5*time.Second, 0)
	b.want("unknown")
}

func TestASingleCheckerRepeatsItself(t *testing.T) {
	b := newBench(t, 1, "")
	b.say(0, StatusAnswered, 0)
	b.want("unknown")
	b.say(0, StatusHealthy)
	b.want("down")
	b.say(0, StatusHealthy, 0)
	b.say(0, StatusAnswered, 0)
	b.pass(10 * time.Second)
	b.want("down")
}

func TestDownAtOnceAndUpAfterAWhile(t *testing.T) {
	b := newBench(t, 1, "", "", "")
	b.sayAll(StatusHealthy, 0)
	b.want("up")
	b.say(0, StatusTimeout, 0)
	b.want("up")
	b.say(1, StatusTimeout, 0)
	b.want("down")
	b.pass(10 * time.Second)
	b.sayAll(StatusHealthy, 0)
	b.want("down")
	b.pass(1900 * time.Millisecond)
	b.want("down")
	b.pass(200 * time.Millisecond)
	b.want("up")
}

func TestSilenceIsNeverDown(t *testing.T) {
	b := newBench(t, 2, "", "", "")
	b.sayAll(StatusHealthy, 0, 1)
	b.sayAll(StatusAnswered, 1)
	b.want("up down")
	b.pass(30*time.Second, 9)
	b.want("up down")
	b.pass(5*time.Second, 9)
	b.want("unknown unknown")
	b.v.Drop("envoy-0")
	b.v.Drop("envoy-1")
	b.v.Drop("envoy-2")
	b.pass(time.Minute, 9)
	b.want("unknown unknown")
}

func TestAllCheckersGone(t *testing.T) {
	b := newBench(t, 1, "", "", "")
	b.sayAll(StatusHealthy, 0)
	b.want("up")
	for _, c := range b.checkers {
		b.v.Drop(c.ID)
	}
	b.pass(29*time.Second, 9)
	b.want("up")
	b.checkers = nil
	for i := range 3 {
		b.join(checker(10+i, "", ""))
	}
	b.sayAll(StatusHealthy, 0)
	b.pass(time.Minute)
	b.want("up")
	if len(b.changes) != 1 {
		t.Errorf("the checkers were replaced, and the changes are %v", b.changes)
	}
}

func TestVotesCountOnOwnDutiesOnly(t *testing.T) {
	b := newBench(t, 1, "", "", "")
	b.v.Assign(b.now, b.checkers[0], nil, nil)
	b.v.Assign(b.now, b.checkers[1], nil, nil)
	b.say(0, StatusAnswered, 0)
	b.say(1, StatusAnswered, 0)
	b.v.Report(b.now, "stranger", []Observation{{Key: b.duties[0].Key, Status: StatusAnswered}})
	b.want("unknown")
	b.pass(time.Second)
	b.want("unknown")
}

func TestAnEndpointThatFlapsStaysDownLonger(t *testing.T) {
	b := newBench(t, 1, "", "", "")
	b.sayAll(StatusHealthy, 0)
	b.want("up")
	flips := 0
	for range 60 {
		b.sayAll(StatusAnswered, 0)
		b.pass(time.Second)
		b.sayAll(StatusHealthy, 0)
		b.pass(3 * time.Second)
	}
	for _, c := range b.changes {
		if c.Verdict == Up {
			flips++
		}
	}
	if flips > 8 {
		t.Errorf("it came up %d times in four minutes", flips)
	}
	b.want("down")
	b.pass(5*time.Minute + time.Second)
	b.want("up")
}

func TestZonesThatDisagree(t *testing.T) {
	at := Place{Zone: "a"}
	ballots := func(text string) []Ballot {
		var all []Ballot
		for _, f := range strings.Fields(text) {
			vote := map[byte]Vote{'u': VoteUp, 'd': VoteDown, '-': NoVote, 't': VoteTimeout}[f[1]]
			all = append(all, Ballot{Checker: f, Place: Place{Zone: strings.Trim(f[:1], "?")}, Vote: vote, Repeated: len(f) > 2})
		}
		return all
	}
	for _, c := range []struct {
		ballots string
		verdict Verdict
		split   Split
	}{
		{"", Unknown, NoSplit},
		{"au", Unknown, NoSplit},
		{"aur", Up, NoSplit},
		{"adr", Down, NoSplit},
		{"ad", Unknown, NoSplit},
		{"adr a-", Unknown, NoSplit},
		{"au au", Up, NoSplit},
		{"au ad", Up, NoSplit},
		{"ad ad", Down, NoSplit},
		{"ad at", Down, NoSplit},
		{"a- b- c-", Unknown, NoSplit},
		{"au bd cd", Up, Remote},
		{"au bd bd", Up, Remote},
		{"ad ad bu", Down, OneZone},
		{"bd bd cu", Down, OneZone},
		{"ad ad b-", Down, NoSplit},
		{"ad bd cu", Down, NoSplit},
		{"?d ?d ?u", Down, NoSplit},
		{"?d ?d bu", Down, NoSplit},
		{"ad ad ?u", Down, NoSplit},
		{"ad ad au", Down, NoSplit},
		{"au ad ad bu cd", Down, NoSplit},
	} {
		if got := Count(at, ballots(c.ballots)); got.Verdict != c.verdict || got.Split != c.split {
			t.Errorf("%q comes to %v with split %d, and not %v with split %d", c.ballots, got.Verdict, got.Split, c.verdict, c.split)
		}
	}
}

// countModel is the quorum in words: more than half down, of two or more.
func countModel(ballots []Ballot) Verdict {
	votes := slices.DeleteFunc(slices.Clone(ballots), func(b Ballot) bool { return b.Vote == NoVote })
	down := len(slices.DeleteFunc(slices.Clone(votes), func(b Ballot) bool { return b.Vote == VoteUp }))
	switch {
	case len(ballots) == 1 && len(votes) == 1 && votes[0].Repeated, len(votes) >= 2:
	default:
		return Unknown
	}
	if 2*down > len(votes) {
		return Down
	}
	return Up
}

func TestEveryCountFollowsItsModel(t *testing.T) {
	var walk func(ballots []Ballot)
	walk = func(ballots []Ballot) {
		if got, want := Count(Place{}, ballots).Verdict, countModel(ballots); got != want {
			t.Fatalf("%+v: %v, and the model says %v", ballots, got, want)
		}
		if len(ballots) == 4 {
			return
		}
		for vote := NoVote; vote <= VoteTimeout; vote++ {
			for _, repeated := range []bool{false, true} {
				walk(append(slices.Clone(ballots), Ballot{Vote: vote, Repeated: repeated}))
			}
		}
	}
	walk(nil)
}

func ExampleVerdict() {
	fmt.Println(Up, Down, Unknown)
	// Output: up down unknown
}
