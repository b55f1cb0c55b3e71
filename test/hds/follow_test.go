package hds_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

func TestACheckersWordReachesAnotherEnvoy(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	up := testenv.StartBackend(t, "v1")
	closed := testenv.FreePort(t)
	f.write("api.hcl", instance("api", "api-up", up.Port, fast("hds-protocol", "http")...)+
		instance("api", "api-down", closed, fast("hds-protocol", "tcp")...))
	f.checker("checker-1")
	health := f.follower("api")
	sees(t, health, closed, "UNHEALTHY")
	sees(t, health, up.Port, "HEALTHY")
}

func TestTheCommandLineTellsWhatCheckersFindOut(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	up, closed := testenv.StartBackend(t, "v1"), testenv.FreePort(t)
	f.write("api.hcl", instance("api", "api-up", up.Port, fast("hds-protocol", "http")...)+
		instance("api", "api-down", closed, fast("hds-protocol", "tcp", "hds-policy", "consul")...)+
		instance("api", "api-odd", testenv.FreePort(t), "hds-protocol", "carrier-pigeon"))
	f.checker("checker-1", "--locality", "eu/eu-1")
	health := f.follower("api")
	f.checkers(1)
	testenv.Eventually(t, patience, func() error {
		r := testenv.Run(t, nil, "health", "api", "--admin-addr", f.catenary.AdminAddr)
		for _, want := range []string{"node:checker-1=up", "node:checker-1=down", "refused", "carrier-pigeon"} {
			if !strings.Contains(r.Stdout, want) {
				return fmt.Errorf("no %q in\n%s%s", want, r.Stdout, r.Stderr)
			}
		}
		if r.Code != 1 {
			return fmt.Errorf("with an endpoint down the exit code is %d", r.Code)
		}
		return nil
	})
	sees(t, health, closed, "HEALTHY") // its verdict is only shown
	r := testenv.Run(t, nil, "checkers", "--admin-addr", f.catenary.AdminAddr)
	if r.Code != 0 || !strings.Contains(r.Stdout, "eu/eu-1") || !strings.Contains(r.Stdout, "working") {
		t.Errorf("checkers: exit %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	if r := testenv.Run(t, nil, "health", "--release", "api", "--admin-addr", f.catenary.AdminAddr); r.Code != 1 || !strings.Contains(r.Stderr, "not frozen") {
		t.Errorf("a release of what is not frozen: exit %d, %s", r.Code, r.Stderr)
	}
	m := f.catenary.Metrics()
	if m[`catenary_hds_checkers{state="working"}`] != 1 || m[`catenary_hds_endpoints{verdict="down"}`] != 1 || m["catenary_hds_reports_total"] == 0 {
		t.Errorf("metrics: %v", m)
	}
}
