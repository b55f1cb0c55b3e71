package xds_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
)

func TestGRPCSaysWhatBecameOfItsCalls(t *testing.T) {
	loads := &tallied{}
	c := startControl(t, func(cfg *xds.Config) { cfg.Loads, cfg.LoadReportEvery = loads, time.Second })
	v1 := testenv.StartGRPCBackend(t, "v1", nil)
	c.load("api")
	near := grpcAt("api", v1, facts.StatusPassing)
	near.Service.Locality = &facts.Locality{Region: "eu", Zone: "a"}
	c.instances("api", near)
	client := c.grpcClient("api")
	answered(t, client, "v1")
	testenv.Eventually(t, 10*time.Second, func() error {
		answered(t, client, "v1")
		loads.mu.Lock()
		defer loads.mu.Unlock()
		if n := loads.loads[xds.Load{Service: "api", Datacenter: "dc1", Region: "eu", Zone: "a", Status: xds.LoadSuccess}]; n < 10 {
			return fmt.Errorf("counted %v", loads.loads)
		}
		for l := range loads.loads {
			if l.Service != "api" || l.Zone != "a" {
				t.Errorf("counted %+v", l)
			}
		}
		return nil
	})
	c.noNack()
}
