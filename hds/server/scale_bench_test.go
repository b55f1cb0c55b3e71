package server_test

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// BenchmarkScale is seconds of a fleet whose checkers report each second, over gRPC on loopback: of 100 checkers and
// 5,000 endpoints, or with CATENARY_HDS_SCALE=full of 1,000 and 50,000, with three checkers to each endpoint. All
// figures are of the server, which is a process of its own. Let -benchtime be a number of seconds, such as 30x.
func BenchmarkScale(b *testing.B) {
	checkers, endpoints := 100, 5000
	if os.Getenv("CATENARY_HDS_SCALE") == "full" {
		checkers, endpoints = 1000, 50_000
	}
	p := startPeer(b, endpoints)
	var second atomic.Int64
	finds := func(port uint32) corev3.HealthStatus {
		// Half a percent go down each second, and as many come back that did so 5 s ago.
		if now := second.Load(); now > 0 && (now+int64(port))%200 < 5 {
			return corev3.HealthStatus_UNHEALTHY
		}
		return corev3.HealthStatus_HEALTHY
	}
	size := fmt.Sprintf("%dx%d/", checkers, endpoints)
	fleet := until(b, p, size+"until-all-is-known", fleetSize{checkers, endpoints, 0}, finds)
	for _, c := range fleet {
		if err := c.stop(); err != nil {
			b.Fatal(err)
		}
	}
	testenv.Eventually(b, time.Minute, func() error {
		if u := p.usage("now"); u.Checkers > 0 {
			return fmt.Errorf("%d checkers are left", u.Checkers)
		}
		return nil
	})
	fleet = until(b, p, size+"all-come-again-within-3-s", fleetSize{checkers, endpoints, 3 * time.Second}, finds)
	b.Run(size+"nothing-changes", func(b *testing.B) {
		measure(b, p, func() {})
	})
	second.Store(1)
	b.Run(size+"1-percent-changes-each-second", func(b *testing.B) {
		measure(b, p, func() {
			second.Add(1)
			for _, c := range fleet {
				c.set(func() {})
			}
		})
	})
}

// fleetSize is how large a fleet is, and within what time its checkers come.
type fleetSize struct {
	checkers, endpoints int
	within              time.Duration
}

// until connects a fleet and reports what it costs until all is known, and for how long after the last has come.
func until(b *testing.B, p *peer, name string, size fleetSize, finds func(uint32) corev3.HealthStatus) []*simulated {
	b.Helper()
	fleet := make([]*simulated, 0, size.checkers)
	for i := range size.checkers {
		c, err := simulate(simulation{addr: p.addr, id: fmt.Sprint("c", i), every: time.Second, http: true, finds: finds})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := c.stop(); err != nil {
				b.Error(err)
			}
		})
		fleet = append(fleet, c)
	}
	began, before := time.Now(), p.usage("now")
	for i, c := range fleet {
		time.Sleep(time.Until(began.Add(size.within * time.Duration(i) / time.Duration(size.checkers))))
		if err := c.greet(); err != nil {
			b.Fatal(err)
		}
	}
	greeted := time.Now()
	testenv.Eventually(b, 3*time.Minute, func() error {
		if u := p.usage("now"); u.Votes < fleetK*size.endpoints {
			return fmt.Errorf("%+v", u)
		}
		return nil
	})
	took, after := time.Since(greeted), p.usage("now")
	b.Run(name, func(b *testing.B) {
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(took.Seconds(), "s")
		b.ReportMetric((after.CPU - before.CPU).Seconds(), "cpu-s")
		b.ReportMetric(float64(after.Specifiers-before.Specifiers)/float64(size.checkers), "specifiers/checker")
		b.ReportMetric(float64(after.Broken-before.Broken), "broken")
		b.ReportMetric(float64(after.Silent-before.Silent), "silent")
	})
	return fleet
}

// measure lets seconds go by, and reports what one costs the server.
func measure(b *testing.B, p *peer, each func()) {
	b.Helper()
	before := p.usage("now")
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	began := time.Now()
	for range max(b.N, 3) { // one is too few to say much
		each()
		<-ticker.C
	}
	took := time.Since(began).Seconds()
	after := p.usage("now")
	reports := float64(after.Reports - before.Reports)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric((after.CPU-before.CPU).Seconds()/took, "cpu-s/s")
	b.ReportMetric(reports/took, "reports/s")
	b.ReportMetric(float64(after.Changes-before.Changes)/took, "changes/s")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/reports, "allocs/report")
	b.ReportMetric(float64(after.Bytes-before.Bytes)/reports, "B/report")
	b.ReportMetric(float64(p.usage("heap").Heap)/1e6, "heap-MB")
	if after.Broken > 0 || after.Freezes > 0 {
		b.Logf("%d checkers were broken, %d services frozen", after.Broken, after.Freezes)
	}
}
