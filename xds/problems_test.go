package xds_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/metrics"
	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
	"github.com/catenary-mesh/catenary/xds/session"
)

// problemGauge keeps how many problems the server told of last.
type problemGauge struct {
	*metrics.Metrics
	now *atomic.Int64
}

func (g problemGauge) Problems(n int) { g.now.Store(int64(n)) }

// TestAProblemIsToldOnceAndUntilItEnds: by being mended, or because nobody uses the chain any more.
func TestAProblemIsToldOnceAndUntilItEnds(t *testing.T) {
	log := &journal{}
	gauge := problemGauge{metrics.New("test"), &atomic.Int64{}}
	c := startControl(t, func(cfg *xds.Config) {
		cfg.Metrics, cfg.Logger = gauge, hclog.New(&hclog.LoggerOptions{Output: log})
	})
	c.load("api", "db")
	c.instances("api", at("api", &testenv.Backend{Port: 1}, "v1", facts.StatusPassing))
	told := func(problems int64, text string, lines int) {
		t.Helper()
		testenv.Eventually(t, 10*time.Second, func() error {
			if n := gauge.now.Load(); n != problems {
				return fmt.Errorf("%d problems are counted, want %d", n, problems)
			}
			if n := strings.Count(log.String(), text); n != lines {
				return fmt.Errorf("%q is logged %d times, want %d", text, n, lines)
			}
			return nil
		})
	}
	const begins, ends = "a discovery chain does not compile", "compiles again, or is not used any more"
	broken := &chain.ServiceResolver{Header: chain.Header{Name: "db"}, DefaultSubset: "nowhere"}

	ctx, leave := context.WithCancel(t.Context())
	f := newFollower(declaring(t, "web-1", "web", port("api", 9191), port("db", 9192)), false)
	left := make(chan error, 1)
	go func() { left <- f.follow(ctx, c.dial()) }()
	c.entries(chain.KindServiceResolver, broken)
	told(1, begins, 1)
	before := ""
	for i := range 3 { // what happens elsewhere does not tell it again
		c.instances("api", at("api", &testenv.Backend{Port: 2 + i}, "v1", facts.StatusPassing))
		testenv.Eventually(t, 10*time.Second, func() error {
			f.mu.Lock()
			defer f.mu.Unlock()
			body := string(f.held[session.EndpointURL][apiCluster])
			if body == "" || body == before {
				return fmt.Errorf("api has the endpoints %q", body)
			}
			before = body
			return nil
		})
	}
	told(1, begins, 1)
	c.entries(chain.KindServiceResolver)
	told(0, ends, 1)
	c.entries(chain.KindServiceResolver, broken)
	told(1, begins, 2)
	leave()
	if err := <-left; ctx.Err() == nil {
		t.Error(err)
	}
	told(0, ends, 2)
}
