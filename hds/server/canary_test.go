package server_test

import (
	"fmt"
	"testing"

	"github.com/catenary-mesh/catenary/hds/server"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

func TestWhoComesAndGoesKeepsNoProbeFromOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *server.Config) { c.Guard = admitted{} })
	r.service("api", tcp(), 8001)
	for i := range 3 {
		c := r.checker(fmt.Sprint("hostile", i), allUp, "x-consul-token", "one")
		c.set(func() { c.mute = true })
		testenv.Eventually(t, patience, func() error {
			var told int
			if c.set(func() { told = c.specs }); told == 0 {
				return fmt.Errorf("it was told nothing")
			}
			return nil
		})
		c.stop()
		testenv.Eventually(t, patience, func() error {
			if n := len(r.server.Checkers()); n != 0 {
				return fmt.Errorf("%d checkers", n)
			}
			return nil
		})
	}
	r.checker("honest", allUp, "x-consul-token", "two").probes(8001)
	r.verdicts("api", map[int]bool{8001: true})
}
