//go:build e2e

package integration_test

import (
	"fmt"
	"testing"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// TestManyRequestsLandWhereExplainSays is the same in more mazes, with more requests.
func TestManyRequestsLandWhereExplainSays(t *testing.T) {
	t.Parallel()
	for seed := uint64(10); seed < 22; seed++ {
		version := testenv.NewestEnvoy
		if seed%3 == 0 {
			version = testenv.OldestEnvoy
		}
		t.Run(fmt.Sprintf("%s-%d", version, seed), func(t *testing.T) {
			t.Parallel()
			land(t, seed, 800, version)
		})
	}
}
