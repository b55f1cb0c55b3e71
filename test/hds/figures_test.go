//go:build e2e

package hds_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// lags are how late this machine wakes who sleeps.
type lags struct {
	mu   sync.Mutex
	list []time.Duration
	stop func()
}

// measureLags measures until the test ends, by one who sleeps so long again and again.
func measureLags(t *testing.T, sleep time.Duration) *lags {
	l := &lags{}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		timer := time.NewTimer(sleep)
		defer timer.Stop()
		for began := time.Now(); ; began = time.Now() {
			timer.Reset(sleep)
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
			l.mu.Lock()
			l.list = append(l.list, time.Since(began)-sleep)
			l.mu.Unlock()
		}
	})
	l.stop = func() { cancel(); group.Wait() }
	t.Cleanup(l.stop)
	return l
}

// at is a quantile in percent.
func (l *lags) at(percent int) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return quantile(slices.Clone(l.list), percent)
}

func (l *lags) mean() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	var sum time.Duration
	for _, d := range l.list {
		sum += d
	}
	return sum / time.Duration(max(len(l.list), 1))
}

func quantile(list []time.Duration, percent int) time.Duration {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[(len(list)-1)*percent/100]
}

// startBackends starts so many, each a service of its own, which a client then needs.
func (f *fleet) startBackends(n int, meta ...string) (names []string, list []*testenv.Backend) {
	f.t.Helper()
	var text strings.Builder
	for i := range n {
		name := fmt.Sprint("api", i)
		b := testenv.StartTCPBackend(f.t, "v1")
		text.WriteString(instance(name, name+"-1", b.Port, meta...))
		names, list = append(names, name), append(list, b)
	}
	f.write("backends.hcl", text.String())
	return names, list
}

// known waits until all endpoints of a fleet have three votes that they are up.
func (f *fleet) known(endpoints int) {
	f.t.Helper()
	testenv.Eventually(f.t, 2*patience, func() error {
		m := f.catenary.Metrics()
		if up, votes := m[`catenary_hds_endpoints{verdict="up"}`], m[`catenary_hds_votes{state="fresh"}`]; int(up) != endpoints || int(votes) != 3*endpoints {
			return fmt.Errorf("%v of %d endpoints are up by %v votes", up, endpoints, votes)
		}
		return nil
	})
}

// attempts are the probes that an Envoy says it has made.
func attempts(envoys []*testenv.Envoy) int64 {
	var n int64
	for _, e := range envoys {
		for name, value := range e.Stats() {
			if strings.HasPrefix(name, "cluster.hds/") && strings.HasSuffix(name, ".health_check.attempt") {
				n += value
			}
		}
	}
	return n
}

// TestEachEndpointHasThreeProbesInAnInterval counts them where they arrive: those of four Envoys.
func TestEachEndpointHasThreeProbesInAnInterval(t *testing.T) {
	t.Parallel()
	const (
		endpoints = 24
		interval  = time.Second
		window    = 30 * interval
		k         = 3
	)
	f := startFleet(t)
	var envoys []*testenv.Envoy
	for i := range 4 {
		envoys = append(envoys, f.checker(fmt.Sprintf("checker-%d", i)))
	}
	names, backends := f.startBackends(endpoints, "hds-protocol", "tcp", "hds-interval", interval.String())
	f.watch(names...)
	f.checkers(4)
	f.known(endpoints)

	lag := measureLags(t, interval)
	said := attempts(envoys)
	before := make([]int, endpoints)
	for i, b := range backends {
		before[i] = b.Count()
	}
	began := time.Now()
	<-time.After(window) // this is what is measured
	intervals := float64(time.Since(began)) / float64(interval)
	total, counts := 0, make([]int, endpoints)
	for i, b := range backends {
		counts[i] = b.Count() - before[i]
		total += counts[i]
	}
	said = attempts(envoys) - said
	// Envoy wakes as late as anyone else here, and a probe comes so much after a result.
	late := float64(lag.mean()) / float64(interval)
	per := float64(total) / intervals / endpoints
	t.Logf("%.3f probes for each endpoint and interval, in %.0f intervals of %d endpoints: %d came, %d are those that the Envoys counted; a sleep of an interval took %.1f%% more", per, intervals, endpoints, total, said, late*100)
	if per < k*(0.95-late) || per > k*1.05 {
		t.Errorf("%.3f probes for each endpoint and interval, want %d give or take 5%%", per, k)
	}
	for i, n := range counts {
		// Of each checker one may be just inside or just outside.
		if least, most := k*intervals*(0.95-late)-k, k*intervals*1.05+k; float64(n) < least || float64(n) > most {
			t.Errorf("%d probes came to %s, want %.0f to %.0f: %v", n, names[i], least, most, counts)
		}
	}
}

// TestHowSoonWhoRefusesIsDown is from the moment when a backend refuses until a client of endpoint sets hears that
// it is unhealthy, at any time between two probes.
func TestHowSoonWhoRefusesIsDown(t *testing.T) {
	t.Parallel()
	const (
		samples = 120
		// others are well: what goes down at once must be less than a fifth of all.
		others, shared = 25, 20
		apart          = 100 * time.Millisecond
	)
	f := startFleet(t, "--hds-report-interval", "500ms")
	for i := range 4 {
		f.checker(fmt.Sprintf("checker-%d", i))
	}
	names, backends := f.startBackends(samples, "hds-protocol", "tcp", "hds-interval", "1s")
	names = append(names, f.startWell(others, shared)...)
	h := f.watch(names...)
	f.checkers(4)
	f.known(samples + others*shared)

	lag := measureLags(t, 5*time.Millisecond)
	gone := stopAll(backends, apart)
	testenv.Eventually(t, patience, func() error {
		for port := range gone {
			if err := h.is(port, "UNHEALTHY"); err != nil {
				return err
			}
		}
		return nil
	})
	var took []time.Duration
	for port, at := range gone {
		if err := h.only(port, "HEALTHY", "UNHEALTHY"); err != nil {
			t.Error(err)
		}
		was := h.of(port)
		took = append(took, was[len(was)-1].at.Sub(at))
	}
	p50, p99, most := quantile(took, 50), quantile(took, 99), quantile(took, 100)
	t.Logf("from refusing to UNHEALTHY on a stream, of %d: p50 %v, p99 %v, %v at most; who slept here woke late by p50 %v, p99 %v, %v at most",
		len(took), p50, p99, most, lag.at(50), lag.at(99), lag.at(100))
	// A probe, a report, the verdict and what is sent of it wait for the machine in turn.
	const hops = 4
	if limit := 1100*time.Millisecond + hops*lag.at(50); p50 > limit {
		t.Errorf("p50 is %v, want %v at most", p50, limit)
	}
	// When the machine stands still, all are late that go down meanwhile, and those are more than one in a hundred.
	if limit := 1800*time.Millisecond + max(hops*lag.at(99), lag.at(100)); p99 > limit {
		t.Errorf("p99 is %v, want %v at most", p99, limit)
	}
	if m := f.catenary.Metrics(); m["catenary_hds_freezes_total"] > 0 {
		t.Errorf("%v freezes", m["catenary_hds_freezes_total"])
	}
}

// startWell starts so many services that are well, with the same instances, and returns their names.
func (f *fleet) startWell(services, instances int) (names []string) {
	f.t.Helper()
	var text strings.Builder
	var backends []*testenv.Backend
	for range instances {
		backends = append(backends, testenv.StartTCPBackend(f.t, "v1"))
	}
	for i := range services {
		name := fmt.Sprint("well", i)
		names = append(names, name)
		for j, b := range backends {
			text.WriteString(instance(name, fmt.Sprint(name, "-", j), b.Port, "hds-protocol", "tcp", "hds-interval", "10s"))
		}
	}
	f.write("well.hcl", text.String())
	return names
}

// stopAll stops backends about so long after each other, and returns when each was.
func stopAll(backends []*testenv.Backend, apart time.Duration) map[int]time.Time {
	gone := map[int]time.Time{}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for _, b := range backends {
		<-timer.C
		timer.Reset(apart/2 + time.Duration(rand.Int64N(int64(apart))))
		gone[b.Port] = time.Now()
		b.Stop()
	}
	return gone
}
