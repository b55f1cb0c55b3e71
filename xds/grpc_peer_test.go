package xds_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
)

// grpcClient is a real client of grpc-go that dials a name.
func (c *control) grpcClient(name string) *testenv.GRPCClient {
	c.t.Helper()
	return testenv.DialXDS(c.t, testenv.GRPCBootstrap(c.t, c.addr, map[string]any{"id": "web-grpc", "cluster": "web"}, nil), name)
}

// grpcAt is an instance that answers gRPC.
func grpcAt(service string, b *testenv.GRPCBackend, status facts.CheckStatus) *facts.Instance {
	return at(service, &testenv.Backend{Version: b.Version, Port: b.Port}, b.Version, status)
}

// within is a context of a call that must end soon.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// answered waits until ten calls in a row are answered alike.
func answered(t *testing.T, c *testenv.GRPCClient, want string, headers ...string) {
	t.Helper()
	testenv.Eventually(t, 10*time.Second, func() error {
		if got := c.Tally(within(t, 5*time.Second), 10, headers...); got[want] != 10 {
			return fmt.Errorf("answered %v, want %s", got, want)
		}
		return nil
	})
}

// noNack fails if a client has refused anything.
func (c *control) noNack() {
	c.t.Helper()
	for _, p := range c.server.Proxies() {
		for _, typ := range p.Types {
			if typ.Nacks > 0 {
				c.t.Errorf("%s refused %s: %s", p.ID, typ.Type, typ.Nack.Message)
			}
		}
	}
}

func TestGRPCResolvesANameThatNobodyRegistered(t *testing.T) {
	c := startControl(t, nil)
	v1 := testenv.StartGRPCBackend(t, "v1", nil)
	c.load("api")
	c.instances("api", grpcAt("api", v1, facts.StatusPassing))
	for _, name := range []string{"api", "api:8080", "api.service.consul", "api.service.dc1.consul:443"} {
		client := c.grpcClient(name)
		if who, err := client.Call(within(t, 10*time.Second), "/shop.Shop/Get"); who != "v1" || err != nil {
			t.Errorf("%s: answered %q, %v", name, who, err)
		}
	}
	c.proxy("web-grpc", xds.StateSynced)
	c.noNack()
}

func TestGRPCFailsFastWhereThereIsNothing(t *testing.T) {
	c := startControl(t, nil)
	c.load("api")
	c.instances("api")
	for _, name := range []string{"nobody", "api", "v1.api.service.consul"} {
		start := time.Now()
		_, err := c.grpcClient(name).Call(within(t, 10*time.Second), "/shop.Shop/Get")
		if status.Code(err) != codes.Unavailable || time.Since(start) > 3*time.Second {
			t.Errorf("%s: %v after %s, want UNAVAILABLE at once", name, err, time.Since(start))
		}
	}
	c.noNack()
}

func TestGRPCFollowsASplitAndAFlip(t *testing.T) {
	c := startControl(t, nil)
	v1, v2 := testenv.StartGRPCBackend(t, "v1", nil), testenv.StartGRPCBackend(t, "v2", nil)
	c.load("api")
	c.entries(chain.KindServiceDefaults, &chain.ServiceDefaults{Header: chain.Header{Name: "api"}, Protocol: "grpc"})
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
	splitTo(90, 10)
	c.instances("api", grpcAt("api", v1, facts.StatusPassing), grpcAt("api", v2, facts.StatusPassing))
	client := c.grpcClient("api")
	if got := client.Tally(within(t, 20*time.Second), 500); got["v1"] < 410 || got["v2"] < 20 || got["v1"]+got["v2"] != 500 {
		t.Fatalf("90/10 answered %v", got)
	}
	splitTo(0, 100)
	answered(t, client, "v2")
	c.instances("api", grpcAt("api", v1, facts.StatusPassing), grpcAt("api", v2, facts.StatusCritical))
	answered(t, client, "Unavailable")
	splitTo(100, 0)
	answered(t, client, "v1")
	c.noNack()
}
