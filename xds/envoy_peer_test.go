package xds_test

import (
	"context"
	"fmt"
	"net"
	"strings"
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
}

func startControl(t *testing.T, change func(*xds.Config)) *control {
	store := facts.New()
	cfg := xds.Config{
		Store: store, Logger: hclog.NewNullLogger(), Metrics: metrics.New("test"),
		Datacenter: "dc1", TrustDomain: "catenary.local",
	}
	if change != nil {
		change(&cfg)
	}
	c := &control{t: t, store: store, server: xds.NewServer(cfg)}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.addr = lis.Addr().String()
	g := grpc.NewServer()
	c.server.Register(g)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{}, 2)
	go func() { _ = g.Serve(lis); ended <- struct{}{} }()
	go func() { _ = c.server.Run(ctx); ended <- struct{}{} }()
	t.Cleanup(func() {
		cancel()
		g.Stop()
		<-ended
		<-ended
	})
	return c
}

func (c *control) load(services ...string) {
	c.store.Commit(func(tx *facts.Tx) {
		for _, k := range chain.Kinds() {
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
	boot, err := bootstrap.Envoy(bootstrap.EnvoyConfig{
		Service: "web", ProxyID: "web-1", Upstreams: upstreams, GRPCAddr: c.addr,
		AdminBind: "127.0.0.1:0", SotW: sotw,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return testenv.StartEnvoy(c.t, boot)
}

// split counts the versions that answer n requests.
func split(t *testing.T, port, n int) map[string]int {
	got := map[string]int{}
	for range n {
		code, body, err := testenv.Get(fmt.Sprintf("http://127.0.0.1:%d/", port), nil)
		if err != nil {
			t.Fatal(err)
		}
		if code != 200 {
			body = fmt.Sprint(code)
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

func http(service string) chain.Entry {
	return &chain.ServiceDefaults{Header: chain.Header{Name: service}, Protocol: "http"}
}

func TestEnvoyFollowsASplitAndAFlip(t *testing.T) {
	forms(t, func(t *testing.T, sotw bool) {
		c := startControl(t, nil)
		v1, v2 := testenv.StartBackend(t, "v1"), testenv.StartBackend(t, "v2")
		c.load("api")
		c.entries(chain.KindServiceDefaults, http("api"))
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
		if got := split(t, up.BindPort, 100); got["v1"] < 25 || got["v2"] < 25 {
			t.Fatalf("50/50 answered %v", got)
		}
		splitTo(0, 100)
		testenv.Eventually(t, 5*time.Second, func() error {
			if got := split(t, up.BindPort, 10); got["v2"] != 10 {
				return fmt.Errorf("0/100 answered %v", got)
			}
			return nil
		})
		c.instances("api", at("api", v1, "v1", facts.StatusPassing), at("api", v2, "v2", facts.StatusCritical))
		testenv.Eventually(t, 5*time.Second, func() error {
			if got := split(t, up.BindPort, 10); got["503"] != 10 {
				return fmt.Errorf("a critical instance answered %v", got)
			}
			return nil
		})
		testenv.Eventually(t, 5*time.Second, func() error {
			p := c.server.Proxies()
			if len(p) != 1 || p[0].State != xds.StateSynced {
				return fmt.Errorf("proxies %+v", p)
			}
			return nil
		})
	})
}
