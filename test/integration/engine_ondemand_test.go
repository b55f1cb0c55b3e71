package integration_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
)

const stockCluster = "stock.default.dc1.internal.catenary.local"

// onDemandTimeout is how long an Envoy waits for a cluster that it asks for on demand.
const onDemandTimeout = 20 * time.Second

// onDemandListener sends a request to the cluster that its header names, for which the Envoy asks when
// it does not have it.
const onDemandListener = `{
 "name": "on-demand",
 "address": {"socket_address": {"address": "127.0.0.1", "port_value": %d}},
 "filter_chains": [{"filters": [{
  "name": "envoy.filters.network.http_connection_manager",
  "typed_config": {
   "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
   "stat_prefix": "on-demand",
   "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"],
    "routes": [{"match": {"prefix": "/"}, "route": {"cluster_header": "x-cluster"}}]}]},
   "http_filters": [
    {"name": "envoy.filters.http.on_demand", "typed_config": {
     "@type": "type.googleapis.com/envoy.extensions.filters.http.on_demand.v3.OnDemand",
     "odcds": {"source": {"ads": {}, "resource_api_version": "V3"}, "timeout": "%ds"}}},
    {"name": "envoy.filters.http.router", "typed_config": {
     "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}
   ]}}]}]
}`

// onDemand adds the listener to a bootstrap; without the wildcard, clusters come on demand only.
func onDemand(t *testing.T, boot []byte, port int, wildcard bool) []byte {
	t.Helper()
	var b struct {
		Admin   any            `json:"admin"`
		Node    any            `json:"node"`
		Static  map[string]any `json:"static_resources"`
		Dynamic map[string]any `json:"dynamic_resources"`
	}
	if err := json.Unmarshal(boot, &b); err != nil {
		t.Fatal(err)
	}
	b.Static["listeners"] = []any{
		json.RawMessage(fmt.Sprintf(onDemandListener, port, onDemandTimeout/time.Second)),
	}
	if !wildcard {
		delete(b.Dynamic, "cds_config")
		delete(b.Dynamic, "lds_config")
	}
	out, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// viaCluster returns nil when a request through a cluster is answered as it should be, and in time.
func viaCluster(port int, cluster, want string) error {
	begin := time.Now()
	code, body, err := testenv.Get(fmt.Sprintf("http://127.0.0.1:%d/", port), http.Header{"X-Cluster": {cluster}})
	got := strings.TrimSpace(body)
	if code != http.StatusOK {
		got = fmt.Sprint(code)
	}
	if err != nil {
		return fmt.Errorf("through %s: %w, want %s", cluster, err, want)
	}
	if got != want {
		return fmt.Errorf("through %s: %d %q, want %s", cluster, code, body, want)
	}
	if d := time.Since(begin); d > prompt {
		return fmt.Errorf("through %s: answered only after %s", cluster, d)
	}
	return nil
}

// asks fails the test when a request through a cluster is not answered as it should be. An Envoy asks
// once for a name that does not exist, and lets a second request for it wait for its timeout.
func asks(t *testing.T, port int, cluster, want string) {
	t.Helper()
	if err := viaCluster(port, cluster, want); err != nil {
		t.Error(err)
	}
}

// onDemandPeers runs a test with each Envoy; they ask on demand in delta only.
func onDemandPeers(t *testing.T, f func(t *testing.T, p peer)) {
	t.Helper()
	for _, version := range []testenv.EnvoyVersion{testenv.NewestEnvoy, testenv.OldestEnvoy} {
		t.Run(string(version), func(t *testing.T) {
			t.Parallel()
			f(t, peer{version: version})
		})
	}
}

func TestClustersOnDemandAreServedOrSaidNotToExist(t *testing.T) {
	t.Parallel()
	onDemandPeers(t, func(t *testing.T, p peer) {
		f, _ := oneService(t)
		f.write("stock.hcl", service("stock", "stock-s1", testenv.StartBackend(t, "s1").Port, "passing"))
		_, up := port(t, "api")
		_, stockUp := port(t, "stock")
		demand := testenv.FreePort(t)
		e := p.start(t, onDemand(t, p.boot(t, f.catenary.GRPCAddr, up, stockUp), demand, false))
		e.WaitReady()
		asks(t, demand, apiCluster, "v1")
		asks(t, demand, "nowhere", "503")
		asks(t, demand, apiV2Cluster, "503")
		asks(t, demand, apiCluster, "v1")
		proxy(t, f.catenary, p.id(), xds.StateSynced)

		// A client that comes back with some names has not asked for all there are.
		f.catenary.Restart()
		proxy(t, f.catenary, p.id(), xds.StateSynced)
		asks(t, demand, "elsewhere", "503")
		if h := holds(t, e); len(h.active) != 1 {
			t.Errorf("the Envoy asked for one cluster and has %v", h.active)
		}
		asks(t, demand, apiCluster, "v1")
		asks(t, demand, stockCluster, "s1")
	})
}

func TestAClusterOnDemandBesideTheWildcardIsAnswered(t *testing.T) {
	t.Parallel()
	onDemandPeers(t, func(t *testing.T, p peer) {
		f, v1 := oneService(t)
		api, up := port(t, "api")
		demand := testenv.FreePort(t)
		e := p.start(t, onDemand(t, p.boot(t, f.catenary.GRPCAddr, up), demand, true))
		e.WaitReady()
		answers(t, api, "v1")
		asks(t, demand, apiCluster, "v1")
		asks(t, demand, "nowhere", "503")
		asks(t, demand, apiV2Cluster, "503")
		// A name that was answered as absent is remembered until it is born.
		v2 := testenv.StartBackend(t, "v2")
		f.write("api.hcl", service("api", "api-v1", v1.Port, "passing")+service("api", "api-v2", v2.Port, "passing"))
		f.write("resolver.hcl", onlyV2)
		promptly(t, "a cluster that was born", func() error { return viaCluster(demand, apiV2Cluster, "v2") })
		answers(t, api, "v2")
		proxy(t, f.catenary, p.id(), xds.StateSynced)
	})
}
