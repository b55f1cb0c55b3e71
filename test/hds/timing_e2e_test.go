//go:build e2e

package hds_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"google.golang.org/protobuf/proto"

	"github.com/catenary-mesh/catenary/hds"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

const (
	// reports is how often the Envoy of these tests reports, probes how often it probes.
	reports = 100 * time.Millisecond
	probes  = 500 * time.Millisecond
	timeout = 300 * time.Millisecond
	// early is what a timer may be early by: Envoy's count from when its loop last woke up.
	early = 50 * time.Millisecond
)

// times is an Envoy that does what a script says.
type times struct {
	t      *testing.T
	script *script
	envoy  *testenv.Envoy
	// fine answers, slow does so late, idle is probed without no_traffic_interval, turning changes.
	fine, slow, idle, turning, leaving *web
}

// duty is a probe by HTTP, with an endpoint set for each port.
func (x *times) duty(b *web, change func(*hds.Probe)) hds.Duty {
	p := hds.DefaultProbe(hds.HTTP)
	p.Interval, p.Timeout = probes, timeout
	if change != nil {
		change(&p)
	}
	return hds.Duty{Endpoint: hds.Endpoint{Key: hds.Key{Set: fmt.Sprint(b.port), Address: "127.0.0.1", Port: uint32(b.port)}}, Probe: p}
}

// spec is what the Envoy is to do.
func (x *times) spec(leaving bool) *healthv3.HealthCheckSpecifier {
	duties := []hds.Duty{
		x.duty(x.fine, func(p *hds.Probe) { p.Timeout = 5 * time.Second }),
		x.duty(x.slow, func(p *hds.Probe) { p.Timeout = 5 * time.Second }),
		x.duty(x.idle, func(p *hds.Probe) { p.Timeout = 5 * time.Second }),
		x.duty(x.turning, func(p *hds.Probe) { p.Unhealthy = 3 }),
	}
	if leaving {
		duties = append(duties, x.duty(x.leaving, nil))
	}
	m := composed(x.t, reports, duties...)
	for _, c := range m.GetClusterHealthChecks() {
		if c.GetLocalityEndpoints()[0].GetEndpoints()[0].GetAddress().GetSocketAddress().GetPortValue() == uint32(x.idle.port) {
			c.GetHealthChecks()[0].NoTrafficInterval = nil
		}
	}
	return m
}

// TestEnvoyProbesAndReportsAsWeRelyOnIt holds a real Envoy to the times that the counting of votes goes by. What
// is early fails; what is late is told, because a busy machine is late.
func TestEnvoyProbesAndReportsAsWeRelyOnIt(t *testing.T) {
	t.Parallel()
	x := &times{t: t, script: startScript(t)}
	for _, b := range []**web{&x.fine, &x.slow, &x.idle, &x.turning, &x.leaving} {
		*b = startWeb(t, 200)
	}
	x.slow.after = 700 * time.Millisecond
	x.envoy = testenv.StartEnvoy(t, testenv.CheckerBootstrap(x.script.port))
	x.greets()
	x.reportsOnNothing()
	began := x.reportsAfterOneInterval()
	x.probesEachInterval(began)
	x.turns()
	x.forgetsWhatItIsNotTold()
	x.ignoresWhatItKnows()
	x.refusesWhatIsInvalid()
	x.goesOnAlone()
}

func (x *times) greets() {
	x.t.Helper()
	testenv.Eventually(x.t, patience, func() error {
		x.script.mu.Lock()
		defer x.script.mu.Unlock()
		if len(x.script.hellos) != 1 {
			return fmt.Errorf("%d first messages", len(x.script.hellos))
		}
		hello := x.script.hellos[0]
		x.t.Logf("the first message has %d bytes, and says it can %v", proto.Size(hello), hello.GetCapability().GetHealthCheckProtocols())
		return nil
	})
}

// reportsOnNothing: an empty specifier has reports without content.
func (x *times) reportsOnNothing() {
	x.t.Helper()
	// Another interval than later: only what changes it starts the timer anew.
	told := x.script.say(composed(x.t, 2*reports))
	got := x.script.await(told, "nothing", func(r report) bool { return r.empty })
	x.notBefore("the first report", told, got[0].at, 2*reports)
	if len(got) != 1 {
		x.t.Errorf("on nothing it reports %+v", got[0])
	}
}

// notBefore fails when something came sooner after another than it can, and tells how long it took.
func (x *times) notBefore(what string, from, at time.Time, least time.Duration) {
	x.t.Helper()
	took := at.Sub(from)
	x.t.Logf("%s came after %v, where %v is the least", what, took.Round(time.Millisecond), least)
	if took < least-early {
		x.t.Errorf("%s came after %v, before %v", what, took, least)
	}
}

// reportsAfterOneInterval: the first probe goes out at once but for the jitter, the first report comes after an
// interval, and calls unhealthy what has not answered yet.
func (x *times) reportsAfterOneInterval() time.Time {
	x.t.Helper()
	began := x.script.say(x.spec(true))
	got := x.script.await(began, "that all is well", func(r report) bool {
		return len(r.health) == 5 && !slices.ContainsFunc([]*web{x.fine, x.slow, x.idle, x.turning, x.leaving}, func(b *web) bool {
			return r.health[b.port] != told{"HEALTHY", 200}
		})
	})
	full := slices.IndexFunc(got, func(r report) bool { return len(r.health) == 5 })
	x.notBefore("the first probe", began, x.fine.since(began)[0].at, 0)
	x.notBefore("the first report on the duty", began, got[full].at, reports)
	premature, late := 0, got[len(got)-1]
	for _, r := range got[full:] {
		switch r.health[x.slow.port] {
		case told{"UNHEALTHY", 0}:
			premature++
		case told{"HEALTHY", 200}:
		default:
			x.t.Errorf("of an endpoint that is slow it says %+v", r.health[x.slow.port])
		}
	}
	x.notBefore("the first word for the slow endpoint", x.slow.since(began)[0].at, late.at, x.slow.after)
	x.t.Logf("%d reports called it unhealthy before it had answered", premature)
	if premature == 0 {
		x.t.Error("no report came before the slow endpoint had answered: the test shows nothing")
	}
	return began
}

// probesEachInterval: no_traffic_interval governs, and without it there is a probe in 60 s.
func (x *times) probesEachInterval(began time.Time) {
	x.t.Helper()
	const enough = 8
	testenv.Eventually(x.t, patience, func() error {
		if n := len(x.fine.since(began)); n < enough {
			return fmt.Errorf("%d probes", n)
		}
		return nil
	})
	got := x.fine.since(began)
	// From an answer to the next probe passes the interval, with a jitter of 3 % more at the most; a busy backend
	// hears late of the first.
	x.notBefore(fmt.Sprintf("the %dth probe", enough), got[0].at, got[enough-1].at, (enough-3)*probes)
	if n := len(x.idle.since(began)); n != 1 && time.Since(began) < 55*time.Second {
		x.t.Errorf("%d probes without no_traffic_interval, want the first only", n)
	}
}

// turns: what answers wrongly is unhealthy at once, whatever the threshold; well again and hanging are what the
// thresholds say.
func (x *times) turns() {
	x.t.Helper()
	b := x.turning
	turn := func(status int, want told) (list []probed, seen time.Time) {
		before := time.Now()
		b.status.Store(int64(status))
		got := x.script.await(before, fmt.Sprintf("%+v", want), says(b.port, want))
		seen = got[len(got)-1].at
		for _, p := range b.since(before) {
			if p.status == status && p.at.Before(seen) {
				list = append(list, p)
			}
		}
		if len(list) == 0 {
			x.t.Fatalf("it says %+v of what it has not seen", want)
		}
		x.t.Logf("after %d answers, in %v: %+v", len(list), seen.Sub(before).Round(time.Millisecond), want)
		return list, seen
	}
	if list, _ := turn(503, told{"UNHEALTHY", 503}); len(list) > 2 {
		x.t.Errorf("it took %d answers with 503: the threshold of 3 counts", len(list))
	}
	if list, _ := turn(200, told{"HEALTHY", 200}); len(list) < 2 {
		x.t.Errorf("it took %d answers with 200, and the threshold is 2", len(list))
	}
	list, seen := turn(0, told{"TIMEOUT", 0})
	if len(list) < 3 {
		x.t.Errorf("it took %d timeouts, and the threshold is 3", len(list))
	}
	// There is the interval between them too, but a busy backend hears late of the first.
	x.notBefore("the timeout", list[0].at, seen, 3*timeout)
}

func (x *times) forgetsWhatItIsNotTold() {
	x.t.Helper()
	told := x.script.say(x.spec(false))
	got := x.script.await(told, "nothing of what is gone", func(r report) bool { return len(r.health) == 4 })
	x.t.Logf("an endpoint is gone with the %d. report, after %v", len(got), got[len(got)-1].at.Sub(told).Round(time.Millisecond))
	if len(got) > 5 { // one or two were on their way
		x.t.Errorf("%d reports speak of an endpoint that is gone", len(got)-1)
	}
}

// delegate waits until Envoy has counted so many specifiers more than before, and returns what came of them.
func (x *times) delegate(before map[string]int64, specifiers int64) (updates, errors int64) {
	x.t.Helper()
	var now map[string]int64
	testenv.Eventually(x.t, patience, func() error {
		now = x.envoy.Stats()
		if n := now["hds_delegate.requests"] - before["hds_delegate.requests"]; n != specifiers {
			return fmt.Errorf("%d specifiers came", n)
		}
		return nil
	})
	return now["hds_delegate.updates"] - before["hds_delegate.updates"], now["hds_delegate.errors"] - before["hds_delegate.errors"]
}

// ignoresWhatItKnows: an equal specifier changes nothing, not even when the next report comes.
func (x *times) ignoresWhatItKnows() {
	x.t.Helper()
	before := x.envoy.Stats()
	x.script.say(x.spec(false))
	if updates, errors := x.delegate(before, 1); updates != 0 || errors != 0 {
		x.t.Errorf("a specifier that it knows made %d updates and %d errors", updates, errors)
	}
}

// refusesWhatIsInvalid: Envoy goes on with what it had, and says nothing of it.
func (x *times) refusesWhatIsInvalid() {
	x.t.Helper()
	before := x.envoy.Stats()
	bad := x.spec(true)
	bad.GetClusterHealthChecks()[0].GetHealthChecks()[0].Timeout = nil
	told := x.script.say(bad)
	if updates, errors := x.delegate(before, 1); updates != 0 || errors != 1 {
		x.t.Errorf("a specifier that is invalid made %d updates and %d errors", updates, errors)
	}
	for _, r := range x.script.await(told, "what it said before", func(r report) bool { return r.at.After(told.Add(2 * reports)) }) {
		if len(r.health) != 4 {
			x.t.Errorf("after an invalid specifier it says %+v", r)
		}
	}
}

// goesOnAlone: without a server probes go on, and what they find is in the first report after it is back, which
// comes an interval after the same specifier. Nothing is called unhealthy for it.
func (x *times) goesOnAlone() {
	x.t.Helper()
	x.script.mu.Lock()
	x.script.spec = x.spec(false)
	x.script.mu.Unlock()
	x.script.stop()
	gone := time.Now()
	x.turning.status.Store(200) // it hung
	testenv.Eventually(x.t, patience, func() error {
		if fine, turning := len(x.fine.since(gone)), len(x.turning.since(gone)); fine < 3 || turning < 4 {
			return fmt.Errorf("%d and %d probes without a server", fine, turning)
		}
		return nil
	})
	back := time.Now()
	x.script.start()
	got := x.script.await(back, "anything", func(report) bool { return true })
	x.script.mu.Lock()
	stream, sent := x.script.streams[len(x.script.streams)-1], x.script.sent
	x.script.mu.Unlock()
	x.notBefore("the stream", back, stream, 0)
	x.notBefore("the first report after it", sent, got[0].at, reports)
	want := told{"HEALTHY", 200}
	for _, b := range []*web{x.fine, x.slow, x.idle, x.turning} {
		if got[0].health[b.port] != want {
			x.t.Errorf("back again it first says %+v of the port %d, want %+v", got[0].health[b.port], b.port, want)
		}
	}
}
