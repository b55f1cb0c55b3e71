//go:build e2e

package hds_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/hds/server"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// trouble is a fleet in two zones to which things happen, an Envoy that follows, and all that it is told.
type trouble struct {
	*fleet
	checkers []*testenv.Envoy
	fifth    *testenv.Envoy
	seen     *history
	up       []*web
	ill, db  *web
	closed   int
	// want is what each port is to be, by its service.
	want map[string]map[int]string
}

func startTrouble(t *testing.T) *trouble {
	t.Helper()
	x := &trouble{
		fleet: startFleet(t, "--hds-report-interval", "100ms"),
		up:    []*web{startWeb(t, 200), startWeb(t, 200)}, ill: startWeb(t, 503), db: startWeb(t, 200), closed: testenv.FreePort(t),
	}
	// A probe takes as long as it may on a busy machine; what is down says so at once.
	x.api("/", "a")
	x.write("db.hcl", inZone("a", instance("db", "db-1", x.db.port, probe("2s", "hds-protocol", "tcp")...)))
	x.write("cold.hcl", instance("cold", "cold-1", x.closed, probe("200ms", "hds-protocol", "tcp")...))
	x.want = map[string]map[int]string{
		"api":  {x.up[0].port: "HEALTHY", x.up[1].port: "HEALTHY", x.ill.port: "UNHEALTHY"},
		"db":   {x.db.port: "HEALTHY"},
		"cold": {x.closed: "UNHEALTHY"},
	}
	for i, zone := range []string{"a", "a", "b", "b"} {
		x.checkers = append(x.checkers, x.checker(fmt.Sprintf("checker-%d", i), "--locality", "eu/"+zone))
	}
	x.fleet.checkers(4)
	x.seen = x.watch("api", "db", "cold")
	args := []string{"--service", "web"}
	for name := range x.want {
		args = append(args, "--upstream", fmt.Sprintf("%s:%d", name, testenv.FreePort(t)))
	}
	x.fifth = x.envoy(args...)
	testenv.Eventually(t, patience, x.follows)
	testenv.Eventually(t, patience, func() error { return x.voted(3, "") })
	return x
}

// api writes the service that is probed by a path, with its first instance in a zone.
func (x *trouble) api(path, zone string) {
	x.t.Helper()
	meta := probe("10s", "hds-protocol", "http", "hds-path", path)
	x.write("api.hcl", inZone(zone, instance("api", "api-1", x.up[0].port, meta...))+
		inZone("b", instance("api", "api-2", x.up[1].port, meta...))+inZone("b", instance("api", "api-3", x.ill.port, meta...)))
}

// probed reports whether all votes on the service are of probes by a path, of which one instance is in a zone.
func (x *trouble) probed(path, zone string) error {
	for port := range x.want["api"] {
		e, err := x.endpoint("api", port)
		if err != nil || !strings.Contains(e.Probe, path+" ") || port == x.up[0].port && e.Zone != zone {
			return fmt.Errorf("%+v, want %s and zone %s: %w", e, path, zone, err)
		}
	}
	return x.voted(3, "")
}

// inZone places an instance.
func inZone(zone, instance string) string {
	return strings.Replace(instance, "service {\n", fmt.Sprintf("service {\n  locality {\n    region = \"eu\"\n    zone = %q\n  }\n", zone), 1)
}

// follows reports whether all who follow have all as it is to be.
func (x *trouble) follows() error {
	got := x.fifth.Clusters()
	for service, ports := range x.want {
		health := map[int]string{}
		for _, h := range got[setOf(service)].Hosts {
			health[h.Address.Socket.Port] = h.Health.EDS
		}
		for port, want := range ports {
			if health[port] != want {
				return fmt.Errorf("the port %d of %s is %q, want %s", port, service, health[port], want)
			}
			if err := x.seen.is(port, want); err != nil {
				return err
			}
		}
	}
	return nil
}

// voted reports whether each endpoint has the votes of so many, and none of who is gone.
func (x *trouble) voted(votes int, gone string) error {
	for service, ports := range x.want {
		for port, health := range ports {
			e, err := x.endpoint(service, port)
			if err != nil {
				return err
			}
			want := map[string]string{"HEALTHY": "up", "UNHEALTHY": "down"}[health]
			others := slices.DeleteFunc(slices.Clone(e.Votes), func(v server.Vote) bool { return v.Vote == want && (gone == "" || !strings.Contains(v.Checker, gone)) })
			if e.Verdict != want || len(e.Votes) != votes || len(others) > 0 {
				return fmt.Errorf("%+v, want %d votes that say %s", e, votes, want)
			}
		}
	}
	return nil
}

// unchanged runs what is not to change the health of anything, not for a moment.
func (x *trouble) unchanged(what string, happens func()) {
	x.t.Helper()
	testenv.Eventually(x.t, patience, x.follows)
	before := x.seen.String()
	happens()
	if after := x.seen.String(); after != before {
		x.t.Errorf("%s changed\n%s\ninto\n%s", what, before, after)
	}
	if err := x.follows(); err != nil {
		x.t.Errorf("%s: %v", what, err)
	}
}

// TestNothingThatHappensToCheckersOrServerTakesAnythingDown has a backend, checkers, a zone, the server, and at
// last all checkers go away, while a fifth Envoy follows.
func TestNothingThatHappensToCheckersOrServerTakesAnythingDown(t *testing.T) {
	t.Parallel()
	x := startTrouble(t)
	x.backendRestarts()
	x.unchanged("a checker that was killed", func() {
		x.kill(0)
		testenv.Eventually(t, patience, func() error { return x.voted(3, "checker-0") })
	})
	x.unchanged("a zone that was lost", func() {
		x.kill(1)
		testenv.Eventually(t, patience, func() error { return x.voted(2, "checker-1") })
	})
	x.unchanged("a zone that came back", func() {
		x.checkers[0].Restart()
		x.checkers[1].Restart()
		testenv.Eventually(t, patience, func() error { return x.voted(3, "") })
	})
	x.unchanged("a checker that hung", func() {
		x.hang(0)
		testenv.Eventually(t, patience, func() error { return x.voted(3, "checker-0") })
		x.checkers[0].Resume()
		x.fleet.checkers(4)
	})
	x.unchanged("another way to probe", func() {
		x.api("/other", "a")
		testenv.Eventually(t, patience, func() error { return x.probed("/other", "a") })
	})
	x.unchanged("an instance that moved to another zone", func() {
		x.api("/other", "b")
		testenv.Eventually(t, patience, func() error { return x.probed("/other", "b") })
	})
	x.unchanged("a fleet that begins anew", func() {
		for i := range x.checkers {
			x.kill(i)
		}
		for _, c := range x.checkers {
			c.Restart()
		}
		testenv.Eventually(t, patience, func() error { return x.voted(3, "") })
	})
	x.serverRestarts()
	x.allAreLost()
}

// hang stops a checker in the middle of what it does, and waits until it is found to be broken.
func (x *trouble) hang(i int) {
	x.t.Helper()
	at := time.Now()
	x.checkers[i].Pause()
	testenv.Eventually(x.t, patience, func() error {
		var list []server.CheckerStatus
		if err := x.catenary.API("/api/v1/checkers", &list); err != nil {
			return err
		}
		for _, c := range list {
			if c.State == "broken" && c.Duties == 0 {
				return nil
			}
		}
		return fmt.Errorf("%+v", list)
	})
	took := time.Since(at)
	x.t.Logf("a checker that hung was out after %v", took.Round(time.Millisecond))
	if took < silence/2 { // its last report may have been a while ago
		x.t.Errorf("it may be silent for %v", silence)
	}
}

// kill kills a checker, and waits until its duties are others'.
func (x *trouble) kill(i int) {
	x.t.Helper()
	at := time.Now()
	x.checkers[i].Kill()
	dead := fmt.Sprintf("checker-%d", i)
	testenv.Eventually(x.t, patience, func() error {
		var list []server.CheckerStatus
		if err := x.catenary.API("/api/v1/checkers", &list); err != nil {
			return err
		}
		for _, c := range list {
			if c.NodeID == dead {
				return fmt.Errorf("%s is still there: %+v", dead, c)
			}
		}
		return nil
	})
	x.t.Logf("%s was out %v after it was killed", dead, time.Since(at).Round(time.Millisecond))
}

// backendRestarts: a backend goes down and comes back, at the fifth Envoy too.
func (x *trouble) backendRestarts() {
	x.t.Helper()
	turn := func(want string, f func()) {
		at := time.Now()
		f()
		x.want["db"][x.db.port] = want
		testenv.Eventually(x.t, patience, x.follows)
		x.t.Logf("%s at the fifth Envoy %v after the backend was so", want, time.Since(at).Round(time.Millisecond))
	}
	turn("UNHEALTHY", x.db.stop)
	turn("HEALTHY", func() { x.db.start(false) })
	if err := x.seen.only(x.db.port, "HEALTHY", "UNHEALTHY", "HEALTHY"); err != nil {
		x.t.Error(err)
	}
	testenv.Eventually(x.t, patience, func() error { return x.voted(3, "") })
}

// silence is how long a checker may be silent.
const silence = 2 * time.Second

// serverRestarts: probes go on without a server, and one that is back in time with what they found changes nothing.
func (x *trouble) serverRestarts() {
	x.t.Helper()
	if !x.restarts(x.seen, x.up[0], func() error { return x.voted(3, "") }) {
		x.t.Error("the checkers were never back in time")
	}
	if err := x.follows(); err != nil {
		x.t.Error(err)
	}
}

// holding is how long a verdict stays without votes.
const holding = 30 * time.Second

// allAreLost: without votes verdicts stay, and then there are none; nothing is down for that.
func (x *trouble) allAreLost() {
	x.t.Helper()
	var lost time.Time
	x.unchanged("the loss of every checker", func() {
		for i := range x.checkers {
			lost = time.Now()
			x.kill(i)
		}
		testenv.Throughout(x.t, time.Second, x.follows)
	})
	x.want["api"][x.ill.port], x.want["cold"][x.closed] = "HEALTHY", "HEALTHY"
	testenv.Eventually(x.t, holding+patience, x.follows)
	for port, service := range map[int]string{x.ill.port: "api", x.closed: "cold"} {
		was := x.seen.of(port)
		held := was[len(was)-1].at.Sub(lost)
		x.t.Logf("the verdict on %s stayed for %v without a checker", service, held.Round(time.Millisecond))
		if held < holding {
			x.t.Errorf("want %v", holding)
		}
		if e, err := x.endpoint(service, port); err != nil || e.Verdict != "unknown" {
			x.t.Errorf("%+v %v", e, err)
		}
	}
	for _, b := range x.up {
		if err := x.seen.only(b.port, "HEALTHY"); err != nil {
			x.t.Error(err)
		}
	}
}
