package consulwatch

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// between stands before the HTTP API of a real Consul and can get in the way.
type between struct {
	server *httptest.Server

	mu    sync.Mutex
	fault http.HandlerFunc // answers instead, if there is one
	asked map[string]int   // by path
	peers string           // the answer to who the servers are; empty means Consul's own
}

func startBetween(t *testing.T, c *testenv.Consul) *between {
	b := &between{asked: map[string]int{}}
	through := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: c.HTTPAddr()})
	through.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	b.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		b.asked[r.URL.Path]++
		fault, peers := b.fault, b.peers
		b.mu.Unlock()
		switch {
		case fault != nil:
			fault(w, r)
		case peers != "" && r.URL.Path == "/v1/status/peers":
			fmt.Fprint(w, peers)
		default:
			through.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() {
		b.server.CloseClientConnections() // queries wait
		b.server.Close()
	})
	return b
}

func (b *between) set(fault http.HandlerFunc) {
	b.mu.Lock()
	b.fault = fault
	b.mu.Unlock()
	b.server.CloseClientConnections() // what waits meets it now
}

// names has it name one server.
func (b *between) names(server string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.peers = fmt.Sprintf("[%q]", server)
}

func (b *between) count(path string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.asked[path]
}

// troubled is a source that has events, and trouble with queries.
type troubled struct {
	*rig
	*between
	name   string
	before map[string]int
}

// The topics that events alone cannot tell of are read by queries. While these fail, the events go on: what
// they tell is served at once, however much of it asks for queries these are not made more often than once
// per second for a topic, and nothing is lost.
func TestTroubleWithQueriesWhileEventsGoOn(t *testing.T) {
	t.Parallel()
	const first, looked = 2 * time.Second, 6 * time.Second
	c := testenv.StartConsul(t)
	h := &noise{c: c}
	h.make()
	var all []*troubled
	for name, fault := range troubles() {
		v := &troubled{between: startBetween(t, c), name: name}
		cfg := with(c, "")
		cfg.API.Address, cfg.Servers, cfg.Limits = v.server.Listener.Addr().String(), []string{c.RPCAddr()}, Limits{}.withDefaults()
		v.rig = run(t, cfg)
		v.store.Need("test", apiHealth, webProxies)
		for _, topic := range []facts.Topic{apiHealth, webProxies, facts.Services("dc1")} {
			testenv.Eventually(t, soon, func() error { return v.follows(topic, ModeStreaming, c.RPCAddr()) })
		}
		v.eventually(h.told)
		v.between.set(fault)
		all = append(all, v)
	}
	during := func(d time.Duration) {
		for end := time.Now().Add(d); time.Now().Before(end); {
			h.make()
			for _, v := range all {
				testenv.Eventually(t, soon, func() error { return h.flipped(v.store.View()) }) // queries cannot tell
			}
		}
	}
	during(first)
	for _, v := range all {
		v.before = map[string]int{}
		for _, path := range h.paths() {
			v.before[path] = v.count(path)
		}
	}
	during(looked)
	for _, v := range all {
		for _, path := range h.paths() {
			if got, most := v.count(path)-v.before[path], int(looked/time.Second); got > most {
				t.Errorf("%s: %s was asked for %d times in %v; want %d at most", v.name, path, got, looked, most)
			}
		}
		v.between.set(nil)
	}
	h.make()
	for _, v := range all {
		begin := time.Now()
		v.eventually(h.told)
		t.Logf("%s: %d changes; all is known %v after the end of the trouble", v.name, h.made, time.Since(begin))
		v.calm()
	}
}

var webProxies = facts.Proxies("dc1", "web")

// noise changes something of each topic with every step.
type noise struct {
	c    *testenv.Consul
	made int
}

func (*noise) paths() []string {
	return []string{apiPath, "/v1/health/connect/web", "/v1/catalog/services"}
}

func (h *noise) status() string { return []string{api.HealthCritical, api.HealthPassing}[h.made%2] }

func (h *noise) make() {
	h.made++
	h.c.RegisterService(testenv.Service{Name: "api", Port: 8080, Status: h.status()})
	h.c.RegisterService(testenv.Service{
		Name: "web-sidecar-proxy", Kind: api.ServiceKindConnectProxy, Port: 20000 + h.made,
		Proxy: &api.AgentServiceConnectProxyConfig{DestinationServiceName: "web"},
	})
	h.c.RegisterService(testenv.Service{Name: fmt.Sprintf("other-%d", h.made)})
}

func (h *noise) flipped(v facts.View) error {
	return instances(apiHealth, facts.Present, "api:"+h.status())(v)
}

func (h *noise) told(v facts.View) error {
	list, state := v.Instances(webProxies)
	if len(list) != 1 || list[0].Service.Port != 20000+h.made {
		return fmt.Errorf("the registrations of web are %s: %+v", state, list)
	}
	return all(h.flipped, serviceIs("dc1", fmt.Sprintf("other-%d", h.made), facts.Present))(v)
}

// All of Consul is away for longer than anything waits between two attempts. What went meanwhile is served
// until Consul is back, and gone soon after.
func TestWhatGoesInAnOutageIsGoneSoonAfter(t *testing.T) {
	t.Parallel()
	const away, most = 16 * time.Second, 5 * time.Second
	c := testenv.StartConsul(t)
	c.RegisterService(testenv.Service{Name: "api", Port: 8080})
	http, rpc := newGate(t, c.HTTPAddr()), newGate(t, c.RPCAddr())
	http.open()
	rpc.open()
	rigs := map[Follow]*rig{}
	held := instances(apiHealth, facts.Present, "api:passing")
	for _, how := range []Follow{FollowAuto, FollowStream, FollowPoll} {
		cfg := with(c, "")
		cfg.API.Address, cfg.Servers, cfg.Limits, cfg.Follow = http.addr, []string{rpc.addr}, Limits{}.withDefaults(), how
		r := run(t, cfg)
		r.store.Need("test", apiHealth)
		r.eventually(all(held, serviceIs("dc1", "api", facts.Present)))
		if how != FollowPoll {
			testenv.Eventually(t, soon, func() error { return r.follows(apiHealth, ModeStreaming, rpc.addr) })
		}
		rigs[how] = r
	}
	http.shut()
	rpc.shut()
	c.Deregister("api")
	testenv.Throughout(t, away, func() error {
		for how, r := range rigs {
			if err := all(held, serviceIs("dc1", "api", facts.Present))(r.store.View()); err != nil {
				return fmt.Errorf("%s: %w", how, err)
			}
		}
		return nil
	})
	http.open()
	rpc.open()
	back := time.Now()
	for how, r := range rigs {
		r.eventually(all(instances(apiHealth, facts.Absent), serviceIs("dc1", "api", facts.Absent)))
		took := time.Since(back)
		t.Logf("%s: gone after %v", how, took)
		if took > generous*most {
			t.Errorf("%s: it took %v after Consul was back; want %v, and no machine takes %d times as long", how, took, most, generous)
		}
	}
}
