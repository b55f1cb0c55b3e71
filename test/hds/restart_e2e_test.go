//go:build e2e

package hds_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/hds/server"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// waiting is how long a server that starts has its clients wait for verdicts.
const waiting = 3 * time.Second

// restarts restarts the server, and fails the test when that changes anything although all votes were there in
// time: not for a moment. Where the machine is too busy for that it tries again, and at last reports false.
func (f *fleet) restarts(seen *history, probed *web, covered func() error) bool {
	f.t.Helper()
	for range 4 {
		before, checkers := seen.String(), len(f.checkersNow())
		f.catenary.Stop()
		gone := time.Now()
		testenv.Eventually(f.t, patience, func() error {
			if len(probed.since(gone)) == 0 {
				return fmt.Errorf("nobody probes without a server")
			}
			return nil
		})
		start := time.Now()
		f.catenary.Restart()
		serving := time.Now()
		testenv.Eventually(f.t, patience, covered)
		took := time.Since(start)
		list := f.checkers(checkers)
		last := slices.MaxFunc(list, func(a, b server.CheckerStatus) int { return a.Connected.Compare(b.Connected) }).Connected
		f.t.Logf("all verdicts were there %v after the last checker was, and %v after the server was",
			start.Add(took).Sub(last).Round(time.Millisecond), start.Add(took).Sub(serving).Round(time.Millisecond))
		testenv.Throughout(f.t, time.Until(start.Add(waiting+time.Second)), func() error { return nil })
		if seen.String() == before {
			return true
		}
		if took < waiting {
			f.t.Fatalf("a restart changed\n%s\ninto\n%s", before, seen)
		}
	}
	return false
}

// checkersNow are those that are connected.
func (f *fleet) checkersNow() (list []server.CheckerStatus) {
	f.t.Helper()
	if err := f.catenary.API("/api/v1/checkers", &list); err != nil {
		f.t.Fatal(err)
	}
	return list
}

// TestARestartWithProbesAndReportsEachSecondChangesNothing leaves every time at its default: what refuses
// connections is known to be down only just in time. That it is known in time has a test with a clock of its own.
func TestARestartWithProbesAndReportsEachSecondChangesNothing(t *testing.T) {
	t.Parallel()
	f := startFleet(t, "--hds-report-interval", "1s", "--hds-default", "tcp")
	up, ill, closed := startWeb(t, 200), startWeb(t, 503), testenv.FreePort(t)
	f.write("api.hcl", instance("api", "api-1", up.port, "hds-protocol", "http")+instance("api", "api-2", ill.port, "hds-protocol", "http")+
		instance("api", "api-3", closed))
	for i := range 4 {
		f.checker(fmt.Sprintf("checker-%d", i))
	}
	seen, health := f.watch("api"), f.follower("api")
	covered := func() error {
		for port, want := range map[int]string{up.port: "up", ill.port: "down", closed: "down"} {
			if e, err := f.endpoint("api", port); err != nil || e.Verdict != want {
				return fmt.Errorf("%+v, want %s: %w", e, want, err)
			}
		}
		return nil
	}
	testenv.Eventually(t, patience, covered)
	for _, port := range []int{ill.port, closed} {
		sees(t, health, port, "UNHEALTHY")
		testenv.Eventually(t, patience, func() error { return seen.is(port, "UNHEALTHY") })
	}
	f.checkers(4)
	if !f.restarts(seen, up, covered) {
		t.Log("the machine is too busy to tell")
	}
	if err := seen.only(up.port, "HEALTHY"); err != nil {
		t.Error(err)
	}
	sees(t, health, closed, "UNHEALTHY")
}
