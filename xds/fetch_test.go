package xds_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
	"github.com/catenary-mesh/catenary/xds/session"
)

func TestAFetchIsAnsweredWhenWhatItAsksForIsKnown(t *testing.T) {
	c := startControl(t, nil)
	c.load("api")
	conn := c.dial()
	answered := make(chan error, 1)
	m := &discoveryv3.DiscoveryResponse{}
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		answered <- conn.Invoke(ctx, "/envoy.service.endpoint.v3.EndpointDiscoveryService/FetchEndpoints", &discoveryv3.DiscoveryRequest{
			Node: declaring(t, "web-1", "web", port("api", 9191)), ResourceNames: []string{apiCluster},
		}, m)
	}()
	testenv.Eventually(t, 10*time.Second, func() error {
		if list := c.of("web-1"); len(list) != 1 || list[0].State != xds.StatePending {
			return fmt.Errorf("the client does not wait: %+v", list)
		}
		return nil
	})
	c.instances("api", at("api", &testenv.Backend{Port: 1}, "v1", facts.StatusPassing))
	if err := <-answered; err != nil || len(m.GetResources()) != 1 || nameOf(session.EndpointURL, m.GetResources()[0].GetValue()) != apiCluster {
		t.Errorf("got %v, %v", m, err)
	}
}
