package integration_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// peer is a kind of Envoy that must be served.
type peer struct {
	version testenv.EnvoyVersion
	sotw    bool
}

// id names a proxy of this kind to the control plane.
func (p peer) id() string {
	if p.sotw {
		return fmt.Sprintf("web-%s-sotw", p.version)
	}
	return fmt.Sprintf("web-%s-delta", p.version)
}

// peers runs a test with the newest and the oldest Envoy that are supported, in both forms of the
// protocol, a few at a time.
func peers(t *testing.T, f func(t *testing.T, p peer)) {
	t.Helper()
	for _, version := range []testenv.EnvoyVersion{testenv.NewestEnvoy, testenv.OldestEnvoy} {
		for _, form := range []string{"delta", "sotw"} {
			t.Run(fmt.Sprintf("%s/%s", version, form), func(t *testing.T) {
				t.Parallel()
				f(t, peer{version: version, sotw: form == "sotw"})
			})
		}
	}
}

// boot returns the bootstrap of a proxy of web that is configured from an address.
func (p peer) boot(t *testing.T, grpcAddr string, upstreams ...string) []byte {
	t.Helper()
	args := []string{
		"bootstrap", "envoy", "--service", "web", "--proxy-id", p.id(),
		"--grpc-addr", grpcAddr, "--admin-bind", "127.0.0.1:0",
	}
	for _, u := range upstreams {
		args = append(args, "--upstream", u)
	}
	if p.sotw {
		args = append(args, "--sotw")
	}
	r := testenv.Run(t, nil, args...)
	if r.Code != 0 {
		t.Fatalf("catenary %v: exit %d: %s", args, r.Code, r.Stderr)
	}
	return []byte(r.Stdout)
}

// envoy starts a proxy of web that is configured from an address, and waits until it serves.
func (p peer) envoy(t *testing.T, grpcAddr string, upstreams ...string) *testenv.Envoy {
	t.Helper()
	e := p.start(t, p.boot(t, grpcAddr, upstreams...))
	e.WaitReady()
	return e
}

// start starts an Envoy of this kind with any bootstrap.
func (p peer) start(t *testing.T, boot []byte) *testenv.Envoy {
	t.Helper()
	return testenv.StartEnvoy(t, boot, testenv.WithEnvoyVersion(p.version))
}

// pace is how long a request of traffic comes after the one before, at least: without it each test with traffic takes
// a core of its own, and those beside it wait for that.
const pace = 10 * time.Millisecond

// traffic is requests, one after the other, to a port.
type traffic struct {
	once  sync.Once
	stop  chan struct{}
	total chan map[string]int
}

// startTraffic requests until [traffic.end], which the end of the test calls too.
func startTraffic(t *testing.T, port int) *traffic {
	tr := &traffic{stop: make(chan struct{}), total: make(chan map[string]int, 1)}
	go func() {
		total := map[string]int{}
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for {
			select {
			case <-tr.stop:
				tr.total <- total
				return
			case <-tick.C:
			}
			for k, n := range tally(port, 1) {
				total[k] += n
			}
		}
	}()
	t.Cleanup(func() { tr.end() })
	return tr
}

// end returns who answered how often; nothing when it was called before.
func (tr *traffic) end() (total map[string]int) {
	tr.once.Do(func() {
		close(tr.stop)
		total = <-tr.total
	})
	return total
}

// only fails the test unless all requests were answered alike.
func (tr *traffic) only(t *testing.T, want string) {
	t.Helper()
	if got := tr.end(); got[want] == 0 || len(got) != 1 {
		t.Errorf("requests were answered %v, want %s alone", got, want)
	}
}

// envoyCluster is the part of a cluster in Envoy's configuration dump that tests change.
type envoyCluster struct {
	Name            string `json:"name"`
	ConnectTimeout  string `json:"connect_timeout"`
	CircuitBreakers struct {
		Thresholds []struct {
			MaxConnections int `json:"max_connections"`
		} `json:"thresholds"`
	} `json:"circuit_breakers"`
}

// held is what an Envoy holds of what it was served: clusters by name, and the versions of everything
// by type and name. It does not tell those of endpoints.
type held struct {
	active, warming map[string]envoyCluster
	versions        map[string]string
}

// dumped is one part of Envoy's configuration dump; each part has some of the fields.
type dumped struct {
	Active []struct {
		Version string       `json:"version_info"`
		Cluster envoyCluster `json:"cluster"`
	} `json:"dynamic_active_clusters"`
	Warming []struct {
		Cluster envoyCluster `json:"cluster"`
	} `json:"dynamic_warming_clusters"`
	Listeners []struct {
		Name   string `json:"name"`
		Active struct {
			Version string `json:"version_info"`
		} `json:"active_state"`
	} `json:"dynamic_listeners"`
	Routes []struct {
		Version string `json:"version_info"`
		Config  struct {
			Name string `json:"name"`
		} `json:"route_config"`
	} `json:"dynamic_route_configs"`
	Endpoints []struct {
		Config struct {
			Name string `json:"cluster_name"`
		} `json:"endpoint_config"`
	} `json:"dynamic_endpoint_configs"`
}

// holds reads an Envoy's configuration dump.
func holds(t *testing.T, e *testenv.Envoy) held {
	t.Helper()
	var dump struct {
		Configs []dumped `json:"configs"`
	}
	if err := json.Unmarshal(e.ConfigDump(), &dump); err != nil {
		t.Fatalf("envoy's configuration dump: %v", err)
	}
	h := held{active: map[string]envoyCluster{}, warming: map[string]envoyCluster{}, versions: map[string]string{}}
	for i := range dump.Configs {
		d := &dump.Configs[i]
		for _, c := range d.Active {
			h.active[c.Cluster.Name] = c.Cluster
			h.versions["cluster "+c.Cluster.Name] = c.Version
		}
		for _, c := range d.Warming {
			h.warming[c.Cluster.Name] = c.Cluster
		}
		for _, l := range d.Listeners {
			h.versions["listener "+l.Name] = l.Active.Version
		}
		for _, r := range d.Routes {
			h.versions["route "+r.Config.Name] = r.Version
		}
		for _, e := range d.Endpoints {
			h.versions["endpoints "+e.Config.Name] = ""
		}
	}
	return h
}

// count returns how many resources of a type there are.
func (h held) count(typ string) int {
	n := 0
	for name := range h.versions {
		if strings.HasPrefix(name, typ+" ") {
			n++
		}
	}
	return n
}

// updates are Envoy's counters of what it took in and found to differ from what it had.
func updates(e *testenv.Envoy) map[string]int64 {
	stats, changed := e.Stats(), map[string]int64{}
	for _, name := range []string{
		"cluster_manager.cluster_added", "cluster_manager.cluster_modified", "cluster_manager.cluster_removed",
		"cluster_manager.cluster_updated", "listener_manager.listener_added", "listener_manager.listener_modified",
		"listener_manager.listener_removed",
	} {
		changed[name] = stats[name]
	}
	return changed
}

// unchanged fails the test when an Envoy took in something new since.
func unchanged(t *testing.T, e *testenv.Envoy, before map[string]int64) {
	t.Helper()
	if after := updates(e); !maps.Equal(before, after) {
		t.Errorf("Envoy counted %v, and now %v, though nothing has changed", before, after)
	}
}

// prompt is the longest that a change may take which needs no waiting: well below the 15 s after
// which an Envoy gives up waiting for the endpoints of a cluster.
const prompt = 5 * time.Second

// promptly waits for what needs no waiting, and says how long it took.
func promptly(t *testing.T, what string, f func() error) {
	t.Helper()
	begin := time.Now()
	testenv.Eventually(t, prompt, f)
	t.Logf("%s: %s", what, time.Since(begin).Round(time.Millisecond))
}
