package testenv

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConsulKeepsItsPortsAndLosesItsData(t *testing.T) {
	t.Parallel()
	c := StartConsul(t)
	c.RegisterService(Service{Name: "api", Port: 8080})
	c.SetCheck("api", api.HealthCritical)
	rows, _, err := c.Client().Health().Service("api", "", false, nil)
	if err != nil || len(rows) != 1 || rows[0].Checks.AggregatedStatus() != api.HealthCritical {
		t.Fatalf("got %v, %v; want one critical instance", rows, err)
	}
	c.Deregister("api")
	if rows, _, err = c.Client().Health().Service("api", "", false, nil); err != nil || len(rows) != 0 {
		t.Fatalf("got %v, %v; want none", rows, err)
	}
	c.WriteEntry(`Kind = "service-defaults"
Name = "api"
Protocol = "http"`)
	if _, _, err := c.Client().ConfigEntries().Get("service-defaults", "api", nil); err != nil {
		t.Fatal(err)
	}
	addr := c.HTTPAddr()
	c.Stop()
	if _, err := c.Client().Status().Leader(); err == nil {
		t.Fatal("Consul answers after Stop")
	}
	c.Restart()
	if c.HTTPAddr() != addr {
		t.Fatalf("moved from %s to %s", addr, c.HTTPAddr())
	}
	if _, _, err := c.Client().ConfigEntries().Get("service-defaults", "api", nil); err == nil {
		t.Fatal("the data survived")
	}
}

func TestConsulWithDataDirKeepsItsData(t *testing.T) {
	t.Parallel()
	c := StartConsul(t, WithDataDir(), WithACL())
	secret := c.NewToken(`service_prefix "" { policy = "read" } node_prefix "" { policy = "read" }`)
	c.RegisterService(Service{Name: "api", Port: 8080})
	count := func() int {
		rows, _, err := c.Client().Health().Service("api", "", false, &api.QueryOptions{Token: secret})
		if err != nil {
			t.Fatal(err)
		}
		return len(rows)
	}
	if got := count(); got != 1 {
		t.Fatalf("%d instances before the restart", got)
	}
	c.Restart()
	if got := count(); got != 1 {
		t.Fatalf("%d instances after the restart", got)
	}
	c.SetPolicy(secret, "")
	Eventually(t, 5*time.Second, func() error {
		if got := count(); got != 0 {
			return fmt.Errorf("%d instances are visible without rights", got)
		}
		return nil
	})
}

const bootstrap = `{
 "admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}}},
 "static_resources": {
  "listeners": [{"name": "in", "address": {"socket_address": {"address": "127.0.0.1", "port_value": %d}},
   "filter_chains": [{"filters": [{"name": "tcp", "typed_config": {
    "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
    "stat_prefix": "in", "cluster": "backend"}}]}]}],
  "clusters": [{"name": "backend", "type": "STATIC", "load_assignment": {"cluster_name": "backend",
   "endpoints": [{"lb_endpoints": [{"endpoint": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": %d}}}}]}]}}]
 }}`

func TestEnvoyForwardsToABackend(t *testing.T) {
	t.Parallel()
	b := StartBackend(t, "v1")
	port := FreePort(t)
	e := StartEnvoy(t, fmt.Appendf(nil, bootstrap, port, b.Port))
	e.WaitReady()
	status, body, err := Get(fmt.Sprintf("http://127.0.0.1:%d/x", port), http.Header{"X-Test": {"1"}})
	if err != nil || status != 200 || body != "v1" || b.Count() != 1 || b.Last().Header.Get("X-Test") != "1" {
		t.Fatalf("got %d %q %v after %d requests", status, body, err, b.Count())
	}
	hosts := e.Clusters()["backend"].Hosts
	if len(hosts) != 1 || hosts[0].Address.Socket.Port != b.Port || hosts[0].Health.EDS != "HEALTHY" {
		t.Fatalf("clusters: %+v", hosts)
	}
	if got := e.Stats()["cluster.backend.upstream_cx_total"]; got != 1 {
		t.Fatalf("upstream_cx_total = %d", got)
	}
	if !strings.Contains(string(e.ConfigDump()), `"stat_prefix": "in"`) {
		t.Fatal("the configuration dump lacks the listener")
	}
}

func TestTCPBackendEchoes(t *testing.T) {
	t.Parallel()
	b := StartTCPBackend(t, "v2")
	conn, err := net.Dial("tcp", b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintln(conn, "hello")
	r := bufio.NewReader(conn)
	for _, want := range []string{"v2\n", "hello\n"} {
		if got, err := r.ReadString('\n'); got != want {
			t.Fatalf("got %q, %v; want %q", got, err, want)
		}
	}
}
