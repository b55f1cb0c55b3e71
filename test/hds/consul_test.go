package hds_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/catenary-mesh/catenary/hds/server"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// TestVerdictsJoinConsulsChecks has a real Consul whose checks all pass: one instance is probed as its Meta says,
// one as the definition of its check says, and one has a check as of an agent, of which Consul tells nothing.
func TestVerdictsJoinConsulsChecks(t *testing.T) {
	t.Parallel()
	consul := testenv.StartConsul(t)
	f := &fleet{t: t}
	f.catenary = testenv.StartCatenary(t, consul.Env(), "--consul-addr", consul.HTTPAddr(), "--hds-from-checks", "--hds-report-interval", "250ms")
	testenv.Eventually(t, patience, f.catenary.Ready)
	up, refusing, defined, silent := testenv.StartBackend(t, "v1"), testenv.FreePort(t), testenv.FreePort(t), testenv.FreePort(t)
	meta := map[string]string{"hds-protocol": "tcp", "hds-interval": "100ms", "hds-timeout": "100ms"}
	consul.RegisterService(testenv.Service{Name: "api", ID: "up", Port: up.Port, Meta: meta})
	consul.RegisterService(testenv.Service{Name: "api", ID: "refusing", Port: refusing, Meta: meta})
	consul.RegisterService(testenv.Service{Name: "api", ID: "silent", Port: silent})
	consul.Register(&api.CatalogRegistration{
		Node: "node-1", Address: "127.0.0.1", SkipNodeUpdate: true,
		Service: &api.AgentService{ID: "defined", Service: "api", Address: "127.0.0.1", Port: defined},
		Checks: api.HealthChecks{{
			Node: "node-1", CheckID: "service:defined", ServiceID: "defined", Status: api.HealthPassing,
			Definition: api.HealthCheckDefinition{TCP: fmt.Sprintf("127.0.0.1:%d", defined), IntervalDuration: 100 * time.Millisecond, TimeoutDuration: 100 * time.Millisecond},
		}},
	})
	f.checker("checker-1")
	f.checker("checker-2")
	health := f.follower("api")
	sees(t, health, refusing, "UNHEALTHY")
	sees(t, health, defined, "UNHEALTHY")
	sees(t, health, up.Port, "HEALTHY")
	sees(t, health, silent, "HEALTHY")
	var list []server.ServiceHealth
	if err := f.catenary.API("/api/v1/health/api", &list); err != nil || len(list) != 1 || len(list[0].Endpoints) != 3 || len(list[0].Notes) != 1 {
		t.Errorf("%v %+v", err, list)
	}

	// Consul's word that an instance is critical stands, whatever checkers find.
	consul.SetCheck("up", api.HealthCritical)
	sees(t, health, up.Port, "UNHEALTHY")
}
