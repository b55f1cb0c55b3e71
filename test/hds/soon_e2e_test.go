//go:build e2e

package hds_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

func TestABackendThatGoesIsSeenSoon(t *testing.T) {
	t.Parallel()
	f := startFleet(t, "--hds-report-interval", "500ms")
	const rounds = 7
	var took []time.Duration
	for i := range 3 {
		f.checker(fmt.Sprintf("checker-%d", i))
	}
	f.checkers(3)
	for i := range rounds {
		name := fmt.Sprintf("api%d", i)
		b := testenv.StartTCPBackend(t, "v1")
		f.write(name+".hcl", instance(name, name+"-1", b.Port, "hds-protocol", "tcp", "hds-interval", "1s"))
		port := b.Port
		health := f.follower(name)
		sees(t, health, port, "HEALTHY")
		f.up(name)
		// It goes at any time between two probes, and not just after the first.
		testenv.Throughout(t, time.Duration(rand.Int64N(int64(time.Second))), func() error {
			if got := health(); got[port] != "HEALTHY" {
				return fmt.Errorf("%v", got)
			}
			return nil
		})
		b.Stop()
		gone := time.Now()
		sees(t, health, port, "UNHEALTHY")
		took = append(took, time.Since(gone))
	}
	slices.Sort(took)
	t.Logf("from refusing to UNHEALTHY in an Envoy: %v in the middle, %v at most (probes each 1s, reports each 500ms)", took[rounds/2], took[rounds-1])
	if took[rounds/2] > 5*time.Second {
		t.Errorf("in the middle it took %v", took[rounds/2])
	}
}
