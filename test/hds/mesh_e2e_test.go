//go:build e2e

package hds_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/catenary-mesh/catenary/hds/server"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// register registers an instance and its sidecar at a port, with the service that it reaches.
func register(consul *testenv.Consul, service, node string, sidecar int, upstreams ...api.Upstream) {
	consul.RegisterService(testenv.Service{Name: service, ID: service + "-" + node, Node: node, Port: 1})
	consul.RegisterService(testenv.Service{
		Name: service + "-sidecar-proxy", ID: service + "-" + node + "-sidecar-proxy", Node: node, Port: sidecar, Kind: api.ServiceKindConnectProxy,
		Proxy: &api.AgentServiceConnectProxyConfig{DestinationServiceName: service, DestinationServiceID: service + "-" + node, Upstreams: upstreams},
	})
}

// TestEndpointsOfTheMeshAreProbedByConnecting has sidecars probe the sidecars of another service, which would talk to
// nobody without a certificate.
func TestEndpointsOfTheMeshAreProbedByConnecting(t *testing.T) {
	t.Parallel()
	consul := testenv.StartConsul(t)
	f := &fleet{t: t, env: consul.Env()}
	f.catenary = testenv.StartCatenary(t, consul.Env(), "--consul-addr", consul.HTTPAddr(), "--hds-default", "tcp", "--hds-report-interval", "100ms")
	testenv.Eventually(t, patience, f.catenary.Ready)
	up, closed := startLine(t, ""), testenv.FreePort(t)
	register(consul, "api", "n1", up)
	register(consul, "api", "n2", closed)
	register(consul, "web", "n3", testenv.FreePort(t), api.Upstream{DestinationName: "api", LocalBindPort: testenv.FreePort(t)})
	register(consul, "web", "n2", testenv.FreePort(t))
	web := f.envoy("--service", "web", "--sidecar-for", "web-n3", "--hds")
	f.envoy("--service", "web", "--sidecar-for", "web-n2", "--hds")
	f.checkers(2)
	sees(t, func() map[int]string { return healthOf(web, "api") }, closed, "UNHEALTHY")
	if got := f.voters("api", up, 2); len(got) != 2 {
		t.Errorf("%v vote", got)
	}

	// What they cannot be asked they are not asked.
	consul.WriteEntry("Kind = \"service-defaults\"\nName = \"api\"\nProtocol = \"http\"\nMeta = { hds-protocol = \"http\" }")
	testenv.Eventually(t, patience, func() error {
		var list []server.ServiceHealth
		if err := f.catenary.API("/api/v1/health/api", &list); err != nil {
			return err
		}
		if len(list) != 1 || len(list[0].Refused) != 2 || !strings.Contains(list[0].Refused[0].Reason, "tcp") {
			return fmt.Errorf("%+v", list)
		}
		return nil
	})
	sees(t, func() map[int]string { return healthOf(web, "api") }, closed, "HEALTHY")
}
