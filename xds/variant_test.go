package xds_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
)

func withLimit(service string, connections int) chain.Entry {
	return &chain.ServiceDefaults{
		Header: chain.Header{Name: service}, Protocol: "http",
		UpstreamConfig: &chain.UpstreamConfiguration{Overrides: []*chain.UpstreamConfig{{
			Name: "api", Limits: &chain.UpstreamLimits{MaxConnections: &connections},
		}}},
	}
}

const apiCluster = "api.default.dc1.internal.catenary.local"

// maxConnections is the limit that an Envoy runs a cluster with.
func maxConnections(e *testenv.Envoy, cluster string) (float64, error) {
	var dump struct {
		Configs []struct {
			Dynamic []struct {
				Cluster struct {
					Name            string `json:"name"`
					CircuitBreakers struct {
						Thresholds []struct {
							MaxConnections float64 `json:"max_connections"`
						} `json:"thresholds"`
					} `json:"circuit_breakers"`
				} `json:"cluster"`
			} `json:"dynamic_active_clusters"`
		} `json:"configs"`
	}
	if err := json.Unmarshal(e.ConfigDump(), &dump); err != nil {
		return 0, err
	}
	for _, c := range dump.Configs {
		for _, d := range c.Dynamic {
			if d.Cluster.Name == cluster && len(d.Cluster.CircuitBreakers.Thresholds) == 1 {
				return d.Cluster.CircuitBreakers.Thresholds[0].MaxConnections, nil
			}
		}
	}
	return 0, fmt.Errorf("no cluster %s with a limit", cluster)
}

func TestTwoProxiesOfOneUpstreamHoldTheirOwnLimits(t *testing.T) {
	forms(t, func(t *testing.T, sotw bool) {
		c := startControl(t, nil)
		v1 := testenv.StartBackend(t, "v1")
		c.load("api")
		c.entries(chain.KindServiceDefaults, httpDefaults("api"), withLimit("web", 7), withLimit("admin", 9))
		c.instances("api", at("api", v1, "v1", facts.StatusPassing))
		for service, want := range map[string]float64{"web": 7, "admin": 9} {
			up := upstream(t, "api")
			e := c.envoyOf(service, sotw, up)
			e.WaitReady()
			answers(t, up.BindPort, "v1")
			if got, err := maxConnections(e, apiCluster); err != nil || got != want {
				t.Errorf("%s runs with %v connections (%v), want %v", service, got, err, want)
			}
		}
	})
}

func TestAPlainAndARegisteredProxyOfOneTargetReachTheirOwnEndpoints(t *testing.T) {
	forms(t, func(t *testing.T, sotw bool) {
		m := startMesh(t)
		c := m.control
		direct, sidecar := testenv.StartBackend(t, "direct"), m.meshBackend("api", "sidecar")
		c.load("api", "web")
		c.entries(chain.KindServiceDefaults, httpDefaults("api"))
		c.instances("api", at("api", direct, "direct", facts.StatusPassing))
		mesh, plain := upstream(t, "api"), upstream(t, "api")
		c.store.Commit(func(tx *facts.Tx) {
			tx.Instances(facts.Connect("dc1", "api"),
				[]*facts.Instance{at("api-sidecar-proxy", sidecar, "sidecar", facts.StatusPassing)}, confirmed)
			registration := at("web-sidecar-proxy", &testenv.Backend{Port: testenv.FreePort(t)}, "x", facts.StatusPassing)
			registration.Service.ID = "web-sidecar-proxy"
			registration.Service.Proxy = &facts.Proxy{
				DestinationServiceName: "web",
				Upstreams:              []facts.Upstream{{DestinationName: "api", LocalBindPort: mesh.BindPort}},
			}
			tx.Instances(facts.Proxies("dc1", "web"), []*facts.Instance{registration}, confirmed)
		})
		c.envoy(sotw, plain).WaitReady()
		c.registered("web", "web-sidecar-proxy", sotw).WaitReady()
		answers(t, plain.BindPort, "direct")
		answers(t, mesh.BindPort, "sidecar")
	})
}

// registered starts an Envoy that is known by its registration only.
func (c *control) registered(service, id string, sotw bool) *testenv.Envoy {
	api := "DELTA_GRPC"
	if sotw {
		api = "GRPC"
	}
	return testenv.StartEnvoy(c.t, fmt.Appendf(nil, `{
  "node": {"id": %q, "cluster": %q},
  "admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}}},
  "dynamic_resources": {
    "ads_config": {"api_type": %q, "transport_api_version": "V3",
      "grpc_services": [{"envoy_grpc": {"cluster_name": "local_agent"}}]},
    "cds_config": {"ads": {}, "resource_api_version": "V3", "initial_fetch_timeout": "0s"},
    "lds_config": {"ads": {}, "resource_api_version": "V3", "initial_fetch_timeout": "0s"}
  },
  "static_resources": {"clusters": [{
    "name": "local_agent", "connect_timeout": "1s", "http2_protocol_options": {},
    "load_assignment": {"cluster_name": "local_agent", "endpoints": [{"lb_endpoints": [{"endpoint":
      {"address": {"socket_address": {"address": "127.0.0.1", "port_value": %s}}}}]}]}
  }]}
}`, id, service, api, c.addr[len("127.0.0.1:"):]))
}

func TestAnUnregisteredProxyIsListedAndStartsEmpty(t *testing.T) {
	forms(t, func(t *testing.T, sotw bool) {
		c := startMesh(t).control
		c.load()
		c.store.Commit(func(tx *facts.Tx) { tx.Instances(facts.Proxies("dc1", "web"), nil, confirmed) })
		c.registered("web", "web-sidecar-proxy", sotw).WaitReady()
		if p := c.proxy("web-sidecar-proxy", xds.StateUnregistered); p.Reason == "" {
			t.Error("there is no reason")
		}
	})
}

func TestAProxyWhoseRegistrationIsStillLoadingWaits(t *testing.T) {
	forms(t, func(t *testing.T, sotw bool) {
		m := startMesh(t)
		c, v1 := m.control, m.meshBackend("api", "v1")
		e := c.registered("web", "web-sidecar-proxy", sotw)
		p := c.proxy("web-sidecar-proxy", xds.StatePending)
		if n := responses(c); len(n) > 0 && n["cluster"] > 0 {
			t.Errorf("%+v was answered before its registration is known", p)
		}
		c.load("api", "web")
		c.entries(chain.KindServiceDefaults, httpDefaults("api"))
		up := upstream(t, "api")
		c.store.Commit(func(tx *facts.Tx) {
			tx.Instances(facts.Connect("dc1", "api"), []*facts.Instance{at("api", v1, "v1", facts.StatusPassing)}, confirmed)
			registration := at("web-sidecar-proxy", &testenv.Backend{Port: testenv.FreePort(t)}, "x", facts.StatusPassing)
			registration.Service.ID = "web-sidecar-proxy"
			registration.Service.Proxy = &facts.Proxy{
				DestinationServiceName: "web",
				Upstreams:              []facts.Upstream{{DestinationName: "api", LocalBindPort: up.BindPort}},
			}
			tx.Instances(facts.Proxies("dc1", "web"), []*facts.Instance{registration}, confirmed)
		})
		e.WaitReady()
		answers(t, up.BindPort, "v1")
	})
}

func TestALateUpstreamDelaysOnlyItself(t *testing.T) {
	forms(t, func(t *testing.T, sotw bool) {
		c := startControl(t, nil)
		v1 := testenv.StartBackend(t, "v1")
		c.load("api")
		c.entries(chain.KindServiceDefaults, httpDefaults("api"), httpDefaults("stock"))
		c.instances("api", at("api", v1, "v1", facts.StatusPassing))
		c.store.Commit(func(tx *facts.Tx) { tx.Fail(facts.Services("dc2"), "no path to datacenter dc2") })
		api, stock := upstream(t, "api"), upstream(t, "stock")
		stock.Datacenter = "dc2"
		begin := time.Now()
		c.envoy(sotw, api, stock).WaitReady()
		answers(t, api.BindPort, "v1")
		if d := time.Since(begin); d > 5*time.Second {
			t.Errorf("the other upstream answered after %s", d)
		}
		p := c.proxy("web-1", xds.StatePending)
		if len(p.Pending) != 1 || p.Pending[0].Upstream != "stock?dc=dc2" {
			t.Errorf("pending %+v", p.Pending)
		}
		far := testenv.StartBackend(t, "far")
		c.store.Commit(func(tx *facts.Tx) {
			tx.Services("dc2", []string{"stock"}, confirmed)
			tx.Instances(facts.Health("dc2", "stock"), []*facts.Instance{at("stock", far, "far", facts.StatusPassing)}, confirmed)
		})
		answers(t, stock.BindPort, "far")
		answers(t, api.BindPort, "v1")
	})
}
