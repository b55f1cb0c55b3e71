package hds_test

import (
	"testing"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

func TestACheckersWordReachesAnotherEnvoy(t *testing.T) {
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
