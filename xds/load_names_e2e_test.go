//go:build e2e

package xds_test

import (
	"fmt"
	"testing"

	"github.com/catenary-mesh/catenary/xds"
)

// TestTenThousandUpstreamsOfClientsThatLeftLeaveNothing has clients declare services that nobody knows.
func TestTenThousandUpstreamsOfClientsThatLeftLeaveNothing(t *testing.T) {
	const clients, each = 10, 500 // in each of two rounds
	forms(t, func(t *testing.T, sotw bool) {
		c := startControl(t, nil)
		c.market(3)
		stays := callerOf(t, "stays", sotw, "s0", "s1")
		end := c.calls(stays)
		c.synced(1, xds.StateSynced)
		c.leaves(3<<20, func(round int) { // which needs six times that while it lasts
			var callers []*caller
			for i := range clients {
				var names []string
				for n := range each {
					names = append(names, fmt.Sprintf("r%d-%d-%d", round, i, n))
				}
				callers = append(callers, callerOf(t, fmt.Sprintf("web-%d", i), sotw, names...))
			}
			leave := c.calls(callers...)
			c.synced(1+clients, xds.StateSynced)
			leave()
		})
		end()
		c.forgotten()
	})
}
