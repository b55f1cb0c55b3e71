package hds

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func words(parts ...any) string {
	var all []string
	for i := 0; i < len(parts); i += 2 {
		for range parts[i].(int) {
			all = append(all, parts[i+1].(string))
		}
	}
	return strings.Join(all, " ")
}

func TestSmallFleetsAreNeverFrozen(t *testing.T) {
	for m := 1; m < smallService; m++ {
		b := newBench(t, m, "a", "b", "c")
		b.sayAll(StatusHealthy, b.every()...)
		b.want(words(m, "up"))
		b.sayAll(StatusAnswered, b.every()...)
		b.want(words(m, "down"))
	}
}

func TestMoreThanHalfOfAServiceAtOnceIsFrozen(t *testing.T) {
	for _, c := range []struct {
		total, down int
		frozen      bool
	}{{4, 2, false}, {4, 3, true}, {4, 4, true}, {5, 2, false}, {5, 3, true}, {10, 5, false}, {10, 6, true}} {
		t.Run(fmt.Sprintf("%d-of-%d", c.down, c.total), func(t *testing.T) {
			b := newBench(t, c.total, "a", "b", "c")
			b.sayAll(StatusHealthy, b.every()...)
			b.want(words(c.total, "up"))
			b.sayAll(StatusAnswered, b.every()[:c.down]...)
			if c.frozen {
				b.want(words(c.total, "up"))
			} else {
				b.want(words(c.down, "down", c.total-c.down, "up"))
			}
			if got := len(b.v.Freezes()) == 1; got != c.frozen {
				t.Errorf("freezes: %v", b.v.Freezes())
			}
		})
	}
}

func TestOneAfterAnotherCountsToo(t *testing.T) {
	b := newBench(t, 6, "a", "b", "c")
	b.sayAll(StatusHealthy, b.every()...)
	b.want(words(6, "up"))
	for i := range 4 {
		b.sayAll(StatusAnswered, i)
		b.pass(2 * time.Second)
	}
	b.want("down down down up up up")
	if len(b.v.Freezes()) != 1 {
		t.Error("nothing is frozen")
	}
	slow := newBench(t, 6, "a", "b", "c")
	slow.sayAll(StatusHealthy, slow.every()...)
	slow.want(words(6, "up"))
	for i := range 6 {
		slow.sayAll(StatusAnswered, i)
		slow.pass(6 * time.Second)
	}
	slow.want(words(6, "down"))
}

func TestAFreezeEndsWhenVotesAgreeForAMinute(t *testing.T) {
	b := newBench(t, 4, "a", "b", "c")
	b.sayAll(StatusHealthy, b.every()...)
	b.want(words(4, "up"))
	b.sayAll(StatusAnswered, b.every()...)
	b.want(words(4, "up"))
	b.pass(40 * time.Second)
	b.sayAll(StatusHealthy, 0)
	b.pass(40 * time.Second)
	b.want(words(4, "up"))
	b.pass(21 * time.Second)
	b.want("up down down down")
	if f := b.v.Freezes(); len(f) != 0 {
		t.Errorf("freezes: %v", f)
	}
}

func TestSilenceDuringAFreezeChangesNothingUntilTheFreezeEndsByItself(t *testing.T) {
	b := newBench(t, 4, "a", "b", "c")
	b.sayAll(StatusHealthy, b.every()...)
	b.sayAll(StatusAnswered, 0)
	b.want("down up up up")
	b.sayAll(StatusAnswered, b.every()...)
	b.want("down up up up")
	if len(b.v.Freezes()) != 1 {
		t.Fatal("nothing is frozen")
	}
	b.pass(agreement, 9) // nobody reports any more
	b.want("down up up up")
	b.pass(5*time.Second, 9)
	b.want("unknown unknown unknown unknown") // and never down
	if f := b.v.Freezes(); len(f) != 0 {
		t.Errorf("freezes of what nobody looks at: %v", f)
	}
}

func TestWhatAnOperatorReleasesInSilenceIsHeldAndThenUnknown(t *testing.T) {
	b := newBench(t, 4, "a", "b", "c")
	b.sayAll(StatusHealthy, b.every()...)
	b.want(words(4, "up"))
	b.sayAll(StatusAnswered, b.every()...)
	b.want(words(4, "up"))
	b.pass(10*time.Second, 9)
	b.v.Release(b.now, "api")
	b.want(words(4, "up"))
	b.pass(24*time.Second, 9)
	b.want(words(4, "unknown"))
}

func TestWhatComesUpDuringAFreezeIsUp(t *testing.T) {
	b := newBench(t, 4, "a", "b", "c")
	b.sayAll(StatusHealthy, b.every()...)
	b.want(words(4, "up"))
	b.sayAll(StatusAnswered, 0)
	b.want("down up up up")
	b.sayAll(StatusAnswered, b.every()...)
	b.sayAll(StatusHealthy, 0)
	b.pass(5 * time.Second)
	b.want("up up up up")
	if len(b.v.Freezes()) != 1 {
		t.Error("nothing is frozen")
	}
}

func TestAnOperatorReleasesAFreeze(t *testing.T) {
	b := newBench(t, 5, "a", "b", "c")
	b.sayAll(StatusHealthy, b.every()...)
	b.want(words(5, "up"))
	b.sayAll(StatusAnswered, b.every()...)
	b.want(words(5, "up"))
	if _, ok := b.v.Release(b.now, "web"); ok {
		t.Error("a service was released that is not there")
	}
	changes, ok := b.v.Release(b.now, "api")
	if !ok || len(changes) != 5 {
		t.Errorf("released %t with %v", ok, changes)
	}
	b.want(words(5, "down"))
	if _, ok := b.v.Release(b.now, "api"); ok {
		t.Error("a service was released twice")
	}
}

func TestAFifthOfEverythingIsFrozen(t *testing.T) {
	fleet := func(services, each int) *bench {
		b := newBench(t, services*each, "a", "b", "c")
		for i := range b.duties {
			b.duties[i].Service = fmt.Sprintf("s%d", i/each)
		}
		b.v.Put(b.duties...)
		b.sayAll(StatusHealthy, b.every()...)
		b.want(words(services*each, "up"))
		return b
	}
	b := fleet(10, 10)
	b.sayAll(StatusAnswered, 0, 1, 10, 11, 20, 21, 30, 31, 40, 41, 50, 51, 60, 61, 70, 71, 80, 81, 90, 91)
	b.want(words(2, "down", 8, "up", 2, "down", 8, "up", 2, "down", 8, "up", 2, "down", 8, "up", 2, "down", 8, "up",
		2, "down", 8, "up", 2, "down", 8, "up", 2, "down", 8, "up", 2, "down", 8, "up", 2, "down", 8, "up"))
	b.sayAll(StatusAnswered, 5)
	b.settle()
	if b.v.Verdict(b.duties[5].Key) != Up || len(b.v.Freezes()) != 10 {
		t.Errorf("one of 21 is %v, and the freezes are %v", b.v.Verdict(b.duties[5].Key), b.v.Freezes())
	}
	for _, c := range []struct {
		services, down int
		frozen         bool
	}{{19, 19, false}, {20, 4, false}, {20, 5, true}} {
		small := fleet(c.services, 1)
		small.sayAll(StatusAnswered, small.every()[:c.down]...)
		want := words(c.down, "down", c.services-c.down, "up")
		if c.frozen {
			want = words(c.services, "up")
		}
		small.want(want)
		if got := len(small.v.Freezes()); got != map[bool]int{true: c.services}[c.frozen] {
			t.Errorf("%d of %d went down, and %d are frozen", c.down, c.services, got)
		}
	}
}

func TestAZoneThatIsCutOffFreezesAndDoesNotTakeOut(t *testing.T) {
	b := newBench(t, 20, "a", "a", "b")
	b.sayAll(StatusHealthy, b.every()...)
	b.want(words(20, "up"))
	b.say(0, StatusTimeout, 0, 1, 2)
	b.say(1, StatusTimeout, 0, 1, 2)
	b.pass(20 * time.Second)
	b.want(words(20, "up"))
	if f := b.v.Freezes(); len(f) != 1 || !strings.Contains(f[0].Reason, `zone "a"`) {
		t.Errorf("freezes: %v", f)
	}
	b.say(0, StatusHealthy, 0, 1, 2)
	b.say(1, StatusHealthy, 0, 1, 2)
	b.pass(61 * time.Second)
	if f := b.v.Freezes(); len(f) != 0 {
		t.Errorf("freezes after the zone is back: %v", f)
	}
}

func TestWhatOtherZonesSeeTooIsDownAtOnce(t *testing.T) {
	b := newBench(t, 20, "a", "a", "b")
	b.sayAll(StatusHealthy, b.every()...)
	b.want(words(20, "up"))
	b.say(0, StatusTimeout, 0)
	b.say(1, StatusTimeout, 0)
	b.want(words(20, "up"))
	b.say(2, StatusTimeout, 0)
	b.want(words(1, "down", 19, "up"))
}

func TestTheLossOfAZoneOfCheckersIsNoFailure(t *testing.T) {
	b := newBench(t, 20, "a", "a", "b")
	b.sayAll(StatusHealthy, b.every()...)
	b.want(words(20, "up"))
	b.pass(20*time.Second, 2)
	b.want(words(20, "up"))
	b.v.Drop("envoy-0")
	b.v.Drop("envoy-1")
	b.checkers = b.checkers[2:]
	b.pass(2 * time.Minute)
	b.want(words(20, "up"))
}

func TestServicesComeAndGo(t *testing.T) {
	b := newBench(t, 4, "a", "b", "c")
	b.sayAll(StatusHealthy, b.every()...)
	b.want(words(4, "up"))
	b.sayAll(StatusAnswered, b.every()...)
	b.want(words(4, "up"))
	for _, d := range b.duties {
		b.v.Remove(d.Key)
	}
	b.pass(time.Minute)
	if b.v.Len() != 0 || len(b.v.services) != 0 || len(b.v.frozen) != 0 || len(b.v.Freezes()) != 0 {
		t.Error("something is left of a service that is gone")
	}
	for _, w := range b.v.voters {
		if len(w.records) != 0 {
			t.Error("a checker still has what is gone")
		}
	}
}

// brakeModel counts what goes down by the rule's own words, with no window but a list.
type brakeModel struct {
	down   map[string][]time.Time
	frozen map[string]bool
	sizes  map[string]int
}

func (m *brakeModel) recent(now time.Time, services ...string) int {
	n := 0
	for _, s := range services {
		for _, at := range m.down[s] {
			if now.Sub(at) < brakeWindow {
				n++
			}
		}
	}
	return n
}

// fall returns what may go down of what would, by service.
func (m *brakeModel) fall(now time.Time, would map[string]int) {
	var all []string
	total, falling := 0, 0
	for s, n := range m.sizes {
		all = append(all, s)
		total += n
		if !m.frozen[s] {
			falling += would[s]
		}
	}
	wholeFleet := total >= 20 && falling > 0 && 5*(m.recent(now, all...)+falling) > total
	for s, n := range would {
		if n > 0 && !m.frozen[s] && m.sizes[s] >= 4 && 2*(m.recent(now, s)+n) > m.sizes[s] {
			m.frozen[s] = true
		}
	}
	for _, s := range all {
		if wholeFleet {
			m.frozen[s] = true
		}
		for range would[s] {
			if !m.frozen[s] {
				m.down[s] = append(m.down[s], now)
			}
		}
	}
}

func TestTheBrakeFollowsItsModel(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 3))
		b := newBench(t, 8+r.IntN(40), "a", "b", "c")
		m := brakeModel{down: map[string][]time.Time{}, frozen: map[string]bool{}, sizes: map[string]int{}}
		for i := range b.duties {
			b.duties[i].Service = fmt.Sprintf("s%d", r.IntN(5))
			m.sizes[b.duties[i].Service]++
		}
		b.v.Put(b.duties...)
		b.sayAll(StatusHealthy, b.every()...)
		b.want(words(len(b.duties), "up"))
		order := r.Perm(len(b.duties))
		for len(order) > 0 && b.now.Before(time.Unix(1_000_050, 0)) {
			n := min(1+r.IntN(3), len(order))
			b.sayAll(StatusAnswered, order[:n]...)
			would := map[string]int{}
			for _, i := range order[:n] {
				would[b.duties[i].Service]++
			}
			m.fall(b.now, would)
			b.settle()
			var want, got []string
			for s := range m.frozen {
				want = append(want, s)
			}
			for _, f := range b.v.Freezes() {
				got = append(got, f.Service)
			}
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: frozen are %v, and the model says %v", seed, got, want)
			}
			order = order[n:]
			b.pass(time.Duration(r.IntN(4000)) * time.Millisecond)
		}
	}
}
