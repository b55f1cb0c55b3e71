package integration_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// endpointResponses counts what clients were sent of endpoints: while nothing changes in the catalog,
// any response would take something away or bring it back.
func endpointResponses(f *fleet) float64 {
	return f.catenary.Metrics()[`catenary_xds_responses_total{type="endpoint"}`]
}

// onServers is a fleet on three servers, whose catenary asks one of them and has events from any.
func onServers(t *testing.T) (*fleet, *testenv.Cluster) {
	cluster := testenv.StartCluster(t, 3)
	agent := cluster.Follower()
	f := &fleet{t: t, consul: agent}
	f.catenary = testenv.StartCatenary(t, agent.Env(), "--consul-addr", agent.HTTPAddr(),
		"--consul-servers", strings.Join(cluster.RPCAddrs(), ","))
	testenv.Eventually(t, patience, f.catenary.Ready)
	return f, cluster
}

// follows waits until a change of a check is written, reaches a connected Envoy, and is taken back.
func (f *fleet) follows(t *testing.T, port int, id, good string) time.Duration {
	t.Helper()
	// On a busy machine servers elect a leader more than once.
	testenv.Eventually(t, time.Minute, func() error { return f.consul.TrySetCheck(id, "critical") })
	begin := time.Now()
	answers(t, port, "503")
	took := time.Since(begin)
	f.consul.SetCheck(id, "passing")
	answers(t, port, good)
	return took
}

func TestServersOfConsulThatDieTakeNothingAway(t *testing.T) {
	t.Parallel()
	f, cluster := onServers(t)
	f.http("api", "stock")
	f.register("api", testenv.StartBackend(t, "v1"))
	f.register("stock", testenv.StartBackend(t, "s1"))
	api, up := port(t, "api")
	stock, stockUp := port(t, "stock")
	f.envoy("web", up, stockUp).WaitReady()
	answers(t, api, "v1")
	answers(t, stock, "s1")
	requests := startTraffic(t, api)

	// dies holds that nothing is sent while servers go, and that what happens after is heard of.
	dies := func(what string, fault func()) {
		t.Helper()
		before := endpointResponses(f)
		fault()
		testenv.Throughout(t, time.Second, func() error {
			if n := endpointResponses(f) - before; n != 0 {
				return fmt.Errorf("%s: %v responses about endpoints were sent", what, n)
			}
			return nil
		})
		took := f.follows(t, stock, "stock-s1", "s1")
		t.Logf("%s: a change took %v", what, took)
		if took > patience {
			t.Errorf("%s: a change took %v", what, took)
		}
	}
	var dead *testenv.Consul
	dies("the leader is killed", func() {
		dead = cluster.Leader()
		dead.Kill()
	})
	dies("it comes back", dead.Restart)
	dies("a follower is killed", func() {
		for _, s := range cluster.Servers {
			if s != f.consul && s != cluster.Leader() {
				dead = s
			}
		}
		dead.Kill()
	})
	dies("it comes back", dead.Restart)
	dies("all are restarted", cluster.Restart)

	snapshot := filepath.Join(t.TempDir(), "snapshot")
	f.consul.CLI("", "snapshot", "save", snapshot)
	dies("it is restored", func() { f.consul.CLI("", "snapshot", "restore", snapshot) })
	requests.only(t, "v1")
}
