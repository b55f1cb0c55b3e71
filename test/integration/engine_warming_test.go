package integration_test

import (
	"fmt"
	"testing"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
)

// The clusters of api and of its version 2, as catenary names them for files.
const (
	apiCluster   = "api.default.dc1.internal.catenary.local"
	apiV2Cluster = "v2.api.default.dc1.internal.catenary.local"
)

// onlyV2 is a resolver that needs a cluster which no other does.
const onlyV2 = `
Kind = "service-resolver"
Name = "api"
DefaultSubset = "v2"
Subsets { v2 = { Filter = "Service.Meta.version == v2" } }
`

// connectTimeout is a resolver that changes nothing about a cluster but how long connecting may take.
func connectTimeout(service string, seconds int) string {
	return fmt.Sprintf("Kind = \"service-resolver\"\nName = %q\nConnectTimeout = \"%ds\"\n", service, seconds)
}

// timesOutAfter returns nil when a cluster is in use with that limit, and none is warming.
func timesOutAfter(t *testing.T, e *testenv.Envoy, cluster string, seconds int) error {
	h := holds(t, e)
	if got := h.active[cluster].ConnectTimeout; got != fmt.Sprintf("%ds", seconds) || len(h.warming) > 0 {
		return fmt.Errorf("%s gives up connecting after %q, want %d s; warming %v", cluster, got, seconds, h.warming)
	}
	return nil
}

// oneService serves the files of api with one instance.
func oneService(t *testing.T) (*files, *testenv.Backend) {
	f := serveFiles(t)
	v1 := testenv.StartBackend(t, "v1")
	f.write("defaults.hcl", httpEverywhere)
	f.write("api.hcl", service("api", "api-v1", v1.Port, "passing"))
	return f, v1
}

func TestAChangedClusterWithUnchangedEndpointsWarmsAtOnce(t *testing.T) {
	t.Parallel()
	peers(t, func(t *testing.T, p peer) {
		f, _ := oneService(t)
		api, up := port(t, "api")
		e := p.envoy(t, f.catenary.GRPCAddr, up)
		answers(t, api, "v1")
		requests := startTraffic(t, api)
		for _, seconds := range []int{33, 34, 35} {
			f.write("resolver.hcl", connectTimeout("api", seconds))
			promptly(t, "a connect timeout", func() error { return timesOutAfter(t, e, apiCluster, seconds) })
		}
		f.write("web.hcl", `
Kind = "service-defaults"
Name = "web"
Protocol = "http"
UpstreamConfig { Defaults { Limits { MaxConnections = 77 } } }
`)
		promptly(t, "a circuit breaker", func() error {
			h := holds(t, e)
			c := h.active[apiCluster].CircuitBreakers.Thresholds
			if len(c) != 1 || c[0].MaxConnections != 77 || len(h.warming) > 0 {
				return fmt.Errorf("limits %+v, warming %v", c, h.warming)
			}
			return nil
		})
		requests.only(t, "v1")
		proxy(t, f.catenary, p.id(), xds.StateSynced)
	})
}

// missEndpoints makes a change, loses the endpoints that follow it, and restarts the control plane while
// the Envoy waits for them with a cluster that warms.
func (r *relay) missEndpoints(t *testing.T, c *testenv.Catenary, e *testenv.Envoy, change func()) {
	t.Helper()
	r.hold(resourcev3.EndpointType)
	change()
	testenv.Eventually(t, patience, func() error {
		if h := holds(t, e); len(h.warming) == 0 {
			return fmt.Errorf("no cluster warms: %v", h)
		}
		return nil
	})
	c.Stop()
	r.hold("")
	c.Restart()
	proxy(t, c, r.peer.id(), xds.StateSynced)
}

func TestANewClusterThatWarmsWhileTheControlPlaneIsRestartedBecomesActive(t *testing.T) {
	t.Parallel()
	peers(t, func(t *testing.T, p peer) {
		f, v1 := oneService(t)
		v2 := testenv.StartBackend(t, "v2")
		r := startRelay(t, p, f.catenary.GRPCAddr)
		api, up := port(t, "api")
		e := p.envoy(t, r.addr, up)
		answers(t, api, "v1")
		f.write("api.hcl", service("api", "api-v1", v1.Port, "passing")+service("api", "api-v2", v2.Port, "passing"))
		r.missEndpoints(t, f.catenary, e, func() { f.write("resolver.hcl", onlyV2) })
		promptly(t, "a new cluster", func() error {
			if h := holds(t, e); h.active[apiV2Cluster].Name == "" || len(h.warming) > 0 {
				return fmt.Errorf("warming %v", h.warming)
			}
			return nil
		})
		answers(t, api, "v2")
	})
}

// While a cluster warms, an Envoy waits for its endpoints. When the control plane goes away just then,
// the one that comes has to send them, though the Envoy says that it has them.
func TestAChangedClusterThatWarmsWhileTheControlPlaneIsRestartedBecomesActive(t *testing.T) {
	t.Parallel()
	peers(t, func(t *testing.T, p peer) {
		f, _ := oneService(t)
		r := startRelay(t, p, f.catenary.GRPCAddr)
		api, up := port(t, "api")
		e := p.envoy(t, r.addr, up)
		answers(t, api, "v1")
		requests := startTraffic(t, api)
		r.missEndpoints(t, f.catenary, e, func() { f.write("resolver.hcl", connectTimeout("api", 33)) })
		promptly(t, "a changed cluster", func() error { return timesOutAfter(t, e, apiCluster, 33) })
		requests.only(t, "v1")
	})
}
