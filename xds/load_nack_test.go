package xds_test

import (
	"fmt"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
)

// quiet waits until callers have been told nothing for a while, and returns how many responses they were.
func quiet(t *testing.T, callers []*caller, d time.Duration) int {
	t.Helper()
	last, since := 0, time.Now()
	testenv.Eventually(t, 30*time.Second, func() error {
		if now := sum(callers).responses; now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) < d {
			return fmt.Errorf("responses still come: %d", last)
		}
		return nil
	})
	return last
}

// wakeups is how often a goroutine was given a processor, in the whole program.
func wakeups() uint64 {
	sample := []metrics.Sample{{Name: "/sched/latencies:seconds"}}
	metrics.Read(sample)
	n := uint64(0)
	for _, count := range sample[0].Value.Float64Histogram().Counts {
		n += count
	}
	return n
}

// TestAThousandClientsThatRefuseEverythingCostNothing has them refuse all they are sent. Of each type they
// get what they hold once, and each resource of several alone once more; then nothing, until content
// changes, and that once.
func TestAThousandClientsThatRefuseEverythingCostNothing(t *testing.T) {
	const clients, changes, idle = 1000, 20, 300 * time.Millisecond
	const waited = 1200 * time.Millisecond // for clusters: what waits for them is looked at once more after 1 s
	forms(t, func(t *testing.T, sotw bool) {
		c := startControl(t, nil)
		c.load("api", "db", "other")
		c.closed()
		c.entries(chain.KindServiceDefaults, httpDefaults("api"), httpDefaults("db"))
		good := callerOf(t, "yes", sotw, "other")
		endGood := c.calls(good)
		var callers []*caller
		for i := range clients {
			cl := callerOf(t, fmt.Sprintf("no-%d", i), sotw, "api", "db")
			cl.refuse = "I do not like it"
			callers = append(callers, cl)
		}
		end := c.calls(callers...)
		c.synced(clients, xds.StateNacked)
		sent := quiet(t, callers, waited)
		t.Logf("%d responses for %d clients", sent, clients)
		if most := 4 * 3 * clients; sent > most {
			t.Errorf("%d responses, want %d at most: each type once, and two resources of each alone", sent, most)
		}
		woken := wakeups()
		for i := range changes {
			c.number("other", uint32(1+i))
			c.told([]*caller{good}, "other", uint32(1+i))
		}
		if n := wakeups() - woken; n > clients {
			t.Errorf("somebody was woken %d times by %d changes of what none of %d clients has", n, changes, clients)
		}
		c.number("api", 1)
		if n := quiet(t, callers, idle); n != sent+clients {
			t.Errorf("a change made %d responses, want one for each of %d clients", n-sent, clients)
		}
		end()
		endGood()
		c.forgotten()
	})
}
