package xds_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// treat says how web treats its upstreams.
func (c *control) treat(u chain.UpstreamConfig) {
	c.entries(chain.KindServiceDefaults,
		&chain.ServiceDefaults{Header: chain.Header{Name: "web"}, UpstreamConfig: &chain.UpstreamConfiguration{Defaults: &u}})
}

func TestGRPCBoundsItsCalls(t *testing.T) {
	c := startControl(t, nil)
	release := make(chan struct{})
	v1 := testenv.StartGRPCBackend(t, "v1", func(context.Context, string) error { <-release; return nil })
	c.load("api")
	one := 1
	c.treat(chain.UpstreamConfig{Limits: &chain.UpstreamLimits{MaxConcurrentRequests: &one}})
	c.instances("api", grpcAt("api", v1, facts.StatusPassing))
	client := c.grpcClient("api")
	held := make(chan error, 1)
	go func() {
		_, err := client.Call(within(t, 20*time.Second), "/shop.Shop/Get")
		held <- err
	}()
	testenv.Eventually(t, 10*time.Second, func() error {
		if v1.Count() == 0 {
			return fmt.Errorf("the first call has not come")
		}
		return nil
	})
	if _, err := client.Call(within(t, 5*time.Second), "/shop.Shop/Get"); status.Code(err) != codes.Unavailable {
		t.Errorf("the second call at a time: %v", err)
	}
	close(release)
	if err := <-held; err != nil {
		t.Errorf("the first call: %v", err)
	}
	c.noNack()
}

func TestGRPCEjectsWhoFails(t *testing.T) {
	c := startControl(t, nil)
	bad := testenv.StartGRPCBackend(t, "bad", func(context.Context, string) error { return status.Error(codes.Internal, "broken") })
	good := testenv.StartGRPCBackend(t, "good", nil)
	c.load("api")
	half := uint32(50)
	c.treat(chain.UpstreamConfig{PassiveHealthCheck: &chain.PassiveHealthCheck{Interval: 300 * time.Millisecond, MaxFailures: 2, MaxEjectionPercent: &half}})
	c.instances("api", grpcAt("api", bad, facts.StatusPassing), grpcAt("api", good, facts.StatusPassing))
	answered(t, c.grpcClient("api"), "good")
	c.noNack()
}
