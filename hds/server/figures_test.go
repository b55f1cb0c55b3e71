package server_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// The fleet of the figures.
const (
	fleetCheckers  = 32
	fleetEndpoints = 2000
	fleetK         = 3
)

// hops is how often in a row something waits for the machine until a checker is told.
const hops = 6

// noise is how late this machine does things: a ticker that measures its own lag.
type noise struct {
	mu    sync.Mutex
	worst time.Duration
}

func measureNoise(t *testing.T) *noise {
	n := &noise{}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		const every = 5 * time.Millisecond
		timer := time.NewTimer(every)
		defer timer.Stop()
		for {
			due := time.Now().Add(every)
			timer.Reset(every)
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
			n.mu.Lock()
			n.worst = max(n.worst, time.Since(due))
			n.mu.Unlock()
		}
	})
	t.Cleanup(func() { cancel(); group.Wait() })
	return n
}

// most is the longest lag so far.
func (n *noise) most() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.worst
}

// replaced is how long after a time the last of a checker's former ports was given to another.
func (f *fleet) replaced(after time.Time, orphans []int) time.Duration {
	f.t.Helper()
	holders := f.spread(fleetK, nil)
	var took time.Duration
	for _, p := range orphans {
		var first time.Duration
		for _, c := range holders[p] {
			if d := c.toldOf(p).Sub(after); d > 0 && (first == 0 || d < first) {
				first = d
			}
		}
		if first == 0 {
			f.t.Errorf("the endpoint %d was given to nobody", p)
		}
		took = max(took, first)
	}
	return took
}

// TestTheDutiesOfACheckerThatGoesAreSoonWithOthers is 250 ms after it is gone, and 2.5 s after it was heard last.
func TestTheDutiesOfACheckerThatGoesAreSoonWithOthers(t *testing.T) {
	f := newFleet(t, fleetOf{checkers: fleetCheckers, endpoints: fleetEndpoints})
	lag := measureNoise(t)
	slower := time.Duration(1)
	if testenv.Race() {
		slower = 10 // where it is not the machine that is late
	}

	var closed []time.Duration
	for range 3 {
		gone := f.checkers[0]
		gone.quiet(t)
		orphans := gone.has()
		closed = append(closed, f.replaced(f.leave(gone), orphans))
	}
	slices.Sort(closed)
	t.Logf("closed: the duties of a checker were with others after %v (each of %d); the machine lagged by %v at most", closed, len(closed), lag.most())
	// A busy machine makes some late, and not all.
	if got := closed[0]; got > slower*(250*time.Millisecond+hops*lag.most()) {
		t.Errorf("%v after a checker was gone its duties were with others, want 250ms", got)
	}

	silent := f.checkers[0]
	orphans := silent.has()
	silent.quiet(t)
	f.mute([]*simulated{silent})
	var heard time.Time
	silent.set(func() { heard = silent.sent })
	took := f.replaced(heard, orphans)
	t.Logf("silent: they were after %v; the machine lagged by %v at most", took, lag.most())
	if took > slower*(2500*time.Millisecond+hops*lag.most()) {
		t.Errorf("%v after a checker was heard last its duties were with others, want 2.5s", took)
	}
	f.up()
	f.never()
}

// adds is how many duties checkers were told of that they did not have.
func (f *fleet) adds() int {
	n := 0
	for _, c := range f.checkers {
		c.set(func() { n += c.adds })
	}
	return n
}

// skew is the most duties that a checker has, of the mean.
func (f *fleet) skew() float64 {
	most := 0
	for _, c := range f.checkers {
		most = max(most, len(c.has()))
	}
	return float64(most) * float64(len(f.checkers)) / float64(fleetK*len(f.ports))
}

// TestFewDutiesMoveWhenACheckerComesOrGoes is of fleets in which nobody was so late as to lose its duties: that moves
// others, then and when it has them back.
func TestFewDutiesMoveWhenACheckerComesOrGoes(t *testing.T) {
	t.Parallel()
	for range 3 {
		f := newFleet(t, fleetOf{checkers: fleetCheckers, endpoints: fleetEndpoints})
		told := true
		for i := 0; i < 2 && told; i++ {
			told = f.movesFew("one came", func() (int, int) { return f.oneComes(fmt.Sprint("late", i)) }) &&
				f.movesFew("one went", f.oneGoes)
		}
		f.up()
		f.never()
		if told {
			return
		}
	}
	t.Log("the machine is too busy to tell")
}

// movesFew makes a change, and judges how many duties moved. It reports whether that could be judged.
func (f *fleet) movesFew(what string, change func() (of, moved int)) bool {
	f.t.Helper()
	n, moved := change()
	share, skew := float64(fleetK*len(f.ports))/float64(n), f.skew()
	f.t.Logf("%s: %d duties moved, %.0f%% of one checker's share; the most that one has is %.2f times the mean", what, moved, float64(moved)/share*100, skew)
	if f.server.Figures().BrokenTotal > 0 {
		return false
	}
	if most := 1.1*share + roundings; float64(moved) > most {
		f.t.Errorf("%s, %d checkers: %d duties moved, want %.0f at most", what, n, moved, most)
	}
	if skew > 1.25 {
		f.t.Errorf("%s: one checker has %.2f times the mean, want 1.25 at most", what, skew)
	}
	return true
}

// roundings is what may move because duties cannot be halved.
const roundings = 4

// oneComes returns among how many one came, and how many duties moved.
func (f *fleet) oneComes(id string) (among, moved int) {
	f.t.Helper()
	before := f.adds()
	comes := f.connect(id, "")
	f.greet(comes)
	f.spread(fleetK, func() error {
		if n, mean := len(comes.has()), fleetK*len(f.ports)/len(f.checkers); n < mean/2 {
			return fmt.Errorf("who came has %d duties, and the mean is %d", n, mean)
		}
		return nil
	})
	return len(f.checkers), f.adds() - before
}

// oneGoes returns of how many one went, and how many duties moved.
func (f *fleet) oneGoes() (of, moved int) {
	f.t.Helper()
	gone := f.checkers[0]
	var its int
	gone.set(func() { its = gone.adds })
	before := f.adds() - its
	f.leave(gone)
	f.spread(fleetK, nil)
	return len(f.checkers) + 1, f.adds() - before
}

func TestALiarTakesNothingDown(t *testing.T) {
	t.Parallel()
	const up, down, timeout = corev3.HealthStatus_HEALTHY, corev3.HealthStatus_UNHEALTHY, corev3.HealthStatus_TIMEOUT
	for n, says := range map[int][]corev3.HealthStatus{3: {down, timeout, up, down}, fleetCheckers: {timeout, up, timeout}} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, fleetOf{checkers: n, endpoints: 600})
			liar := f.checkers[n/2]
			votes := 0
			for _, status := range says {
				liar.set(func() { liar.finds = func(uint32) corev3.HealthStatus { return status } })
				f.heard(liar)
				votes += len(liar.has())
			}
			t.Logf("one of %d checkers that lies said %d times what is not so, and back: %d endpoints were down", n, votes, f.watch.found())
			f.up()
			f.never()
		})
	}
}

// heard waits until the votes of a checker are what it says now.
func (f *fleet) heard(c *simulated) {
	f.t.Helper()
	port := uint32(c.has()[0])
	var says corev3.HealthStatus
	c.set(func() { says = c.finds(port) })
	want := map[corev3.HealthStatus]string{
		corev3.HealthStatus_HEALTHY: "up", corev3.HealthStatus_UNHEALTHY: "down", corev3.HealthStatus_TIMEOUT: "timeout",
	}[says]
	service := fmt.Sprint("s", (int(port)-firstPort)/per)
	testenv.Eventually(f.t, patience, func() error {
		for _, e := range f.server.Health(service)[0].Endpoints {
			for _, v := range e.Votes {
				if e.Address == fmt.Sprint("127.0.0.1:", port) && v.Checker == "node:"+c.id {
					if v.Vote != want {
						return fmt.Errorf("its vote is %+v, want %s", v, want)
					}
					return nil
				}
			}
		}
		return fmt.Errorf("it has no vote on %d", port)
	})
}
