package xds_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/bootstrap"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/metrics"
	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
)

var confirmed = facts.Reading{Confirmed: true}

// control is a control plane over facts that are written by hand.
type control struct {
	t      *testing.T
	store  *facts.Store
	server *xds.Server
	addr   string
	drain  func() // ends the streams, and leaves the connections
	stop   func()
}

func startControl(t *testing.T, change func(*xds.Config)) *control {
	return startControlAt(t, "127.0.0.1:0", change)
}

func startControlAt(t *testing.T, addr string, change func(*xds.Config)) *control {
	store := facts.New()
	cfg := xds.Config{
		Store: store, Logger: hclog.NewNullLogger(), Metrics: metrics.New("test"),
		Datacenter: "dc1", TrustDomain: "catenary.local", Linger: 100 * time.Millisecond,
	}
	if change != nil {
		change(&cfg)
	}
	c := &control{t: t, store: store, server: xds.NewServer(cfg)}
	lis, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	c.addr = lis.Addr().String()
	g := grpc.NewServer(xds.ServerOptions()...)
	c.server.Register(g)
	ctx, cancel := context.WithCancel(t.Context())
	c.drain = cancel
	ended := make(chan struct{}, 2)
	go func() { _ = g.Serve(lis); ended <- struct{}{} }()
	go func() { _ = c.server.Run(ctx); ended <- struct{}{} }()
	c.stop = sync.OnceFunc(func() {
		cancel()
		g.Stop()
		<-ended
		<-ended
	})
	t.Cleanup(c.stop)
	return c
}

func (c *control) load(services ...string) {
	c.store.Commit(func(tx *facts.Tx) {
		for _, k := range chain.AllKinds() {
			tx.Entries(k, nil, confirmed)
		}
		tx.Services("dc1", services, confirmed)
	})
}

func (c *control) entries(kind chain.Kind, entries ...chain.Entry) {
	c.store.Commit(func(tx *facts.Tx) { tx.Entries(kind, entries, confirmed) })
}

func (c *control) instances(service string, list ...*facts.Instance) {
	c.store.Commit(func(tx *facts.Tx) { tx.Instances(facts.Health("dc1", service), list, confirmed) })
}

func at(service string, b *testenv.Backend, version string, status facts.CheckStatus) *facts.Instance {
	return &facts.Instance{
		Node: facts.Node{Node: "n1", Address: "127.0.0.1", Datacenter: "dc1"},
		Service: facts.Service{
			ID: service + "-" + version, Service: service, Port: b.Port,
			Meta: map[string]string{"version": version},
		},
		Checks: []facts.Check{{CheckID: "c", Status: status}},
	}
}

// envoy starts an Envoy that is a proxy of web.
func (c *control) envoy(sotw bool, upstreams ...bootstrap.Upstream) *testenv.Envoy {
	return c.envoyOf("web", sotw, upstreams...)
}

func (c *control) envoyOf(service string, sotw bool, upstreams ...bootstrap.Upstream) *testenv.Envoy {
	boot, err := bootstrap.Envoy(bootstrap.EnvoyConfig{
		Service: service, ProxyID: service + "-1", Upstreams: upstreams, GRPCAddr: c.addr,
		AdminBind: "127.0.0.1:0", SotW: sotw,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return testenv.StartEnvoy(c.t, boot)
}

// split counts the versions that answer n requests; other answers count by their status.
func split(port, n int) map[string]int {
	got := map[string]int{}
	for range n {
		code, body, err := testenv.Get(fmt.Sprintf("http://127.0.0.1:%d/", port), nil)
		switch {
		case err != nil:
			body = "no answer"
		case code != 200:
			body = fmt.Sprintf("%d", code)
		}
		got[strings.TrimSpace(body)]++
	}
	return got
}

func upstream(t *testing.T, service string) bootstrap.Upstream {
	return bootstrap.Upstream{Service: service, BindAddress: "127.0.0.1", BindPort: testenv.FreePort(t)}
}

func forms(t *testing.T, f func(t *testing.T, sotw bool)) {
	for _, form := range []string{"delta", "sotw"} {
		t.Run(form, func(t *testing.T) { f(t, form == "sotw") })
	}
}

func httpDefaults(service string) chain.Entry {
	return &chain.ServiceDefaults{Header: chain.Header{Name: service}, Protocol: "http"}
}

// proxy waits until a proxy is as it should be.
func (c *control) proxy(id, state string) (found xds.ProxyStatus) {
	c.t.Helper()
	testenv.Eventually(c.t, 5*time.Second, func() error {
		for _, p := range c.server.Proxies() {
			if p.ID == id && p.State == state {
				found = p
				return nil
			}
		}
		return fmt.Errorf("no proxy %s is %s: %+v", id, state, c.server.Proxies())
	})
	return found
}

// answers waits until ten requests in a row are answered as they should be.
func answers(t *testing.T, port int, want string) {
	t.Helper()
	testenv.Eventually(t, 5*time.Second, func() error {
		if got := split(port, 10); got[want] != 10 {
			return fmt.Errorf("answered %v, want %s", got, want)
		}
		return nil
	})
}

func TestEnvoyFollowsASplitAndAFlip(t *testing.T) {
	forms(t, func(t *testing.T, sotw bool) {
		c := startControl(t, nil)
		v1, v2 := testenv.StartBackend(t, "v1"), testenv.StartBackend(t, "v2")
		c.load("api")
		c.entries(chain.KindServiceDefaults, httpDefaults("api"))
		c.entries(chain.KindServiceResolver, &chain.ServiceResolver{
			Header: chain.Header{Name: "api"},
			Subsets: map[string]chain.Subset{
				"v1": {Filter: "Service.Meta.version == v1"}, "v2": {Filter: "Service.Meta.version == v2"},
			},
		})
		splitTo := func(w1, w2 float32) {
			c.entries(chain.KindServiceSplitter, &chain.ServiceSplitter{
				Header: chain.Header{Name: "api"},
				Splits: []chain.ServiceSplit{{Weight: w1, ServiceSubset: "v1"}, {Weight: w2, ServiceSubset: "v2"}},
			})
		}
		splitTo(50, 50)
		c.instances("api", at("api", v1, "v1", facts.StatusPassing), at("api", v2, "v2", facts.StatusPassing))

		up := upstream(t, "api")
		c.envoy(sotw, up).WaitReady()
		if got := split(up.BindPort, 100); got["v1"] < 25 || got["v2"] < 25 {
			t.Fatalf("50/50 answered %v", got)
		}
		splitTo(0, 100)
		answers(t, up.BindPort, "v2")
		c.instances("api", at("api", v1, "v1", facts.StatusPassing), at("api", v2, "v2", facts.StatusCritical))
		answers(t, up.BindPort, "503")
		c.proxy("web-1", xds.StateSynced)
	})
}
