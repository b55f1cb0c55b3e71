package xds_test

import (
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
)

// A control plane that has just started knows nothing, and says nothing: what the client has goes on.
func TestGRPCOutlivesItsControlPlane(t *testing.T) {
	v1, v2 := testenv.StartGRPCBackend(t, "v1", nil), testenv.StartGRPCBackend(t, "v2", nil)
	first := startControl(t, nil)
	first.load("api")
	first.instances("api", grpcAt("api", v1, facts.StatusPassing))
	client := first.grpcClient("api")
	answered(t, client, "v1")
	first.stop()
	answered(t, client, "v1")

	second := startControlAt(t, first.addr, nil)
	second.proxy("web-grpc", xds.StatePending)
	answered(t, client, "v1")
	second.load("api")
	if got := client.Tally(within(t, 5*time.Second), 20); got["v1"] != 20 {
		t.Errorf("while the instances are not known: %v", got)
	}
	second.instances("api", grpcAt("api", v1, facts.StatusCritical), grpcAt("api", v2, facts.StatusPassing))
	answered(t, client, "v2")
	second.proxy("web-grpc", xds.StateSynced)
	second.noNack()
}
