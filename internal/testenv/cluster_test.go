package testenv_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

func TestAClusterElectsAnotherLeader(t *testing.T) {
	t.Parallel()
	c := testenv.StartCluster(t, 3)
	first := c.Leader()
	if !slices.Contains(c.RPCAddrs(), first.RPCAddr()) || c.Follower() == first {
		t.Errorf("leader %s of %v", first.RPCAddr(), c.RPCAddrs())
	}
	first.Kill()
	testenv.Eventually(t, 20*time.Second, func() error {
		if c.Leader() == first {
			return fmt.Errorf("still the one that is gone")
		}
		return nil
	})
	first.Restart()
}
