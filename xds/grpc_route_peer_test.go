package xds_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
)

// grpcAPI is the service api, with gRPC and the subsets v1 and v2.
func (c *control) grpcAPI(lb *chain.LoadBalancer, failover map[string]chain.Failover) {
	c.entries(chain.KindServiceDefaults, &chain.ServiceDefaults{Header: chain.Header{Name: "api"}, Protocol: "grpc"})
	c.entries(chain.KindServiceResolver, &chain.ServiceResolver{
		Header: chain.Header{Name: "api"}, DefaultSubset: "v1", LoadBalancer: lb, Failover: failover,
		Subsets: map[string]chain.Subset{
			"v1": {Filter: "Service.Meta.version == v1"}, "v2": {Filter: "Service.Meta.version == v2"},
		},
	})
}

// routes writes the router of api.
func (c *control) routes(routes ...chain.ServiceRoute) {
	c.entries(chain.KindServiceRouter, &chain.ServiceRouter{Header: chain.Header{Name: "api"}, Routes: routes})
}

func onPath(prefix string, d chain.RouteDestination) chain.ServiceRoute {
	return chain.ServiceRoute{
		Match: &chain.RouteMatch{HTTP: &chain.HTTPMatch{PathPrefix: prefix}}, Destination: &d,
	}
}

func TestGRPCFollowsRoutes(t *testing.T) {
	c := startControl(t, nil)
	v1, v2 := testenv.StartGRPCBackend(t, "v1", nil), testenv.StartGRPCBackend(t, "v2", nil)
	c.load("api")
	c.instances("api", grpcAt("api", v1, facts.StatusPassing), grpcAt("api", v2, facts.StatusPassing))
	c.grpcAPI(nil, nil)
	toV2 := &chain.RouteDestination{ServiceSubset: "v2"}
	by := func(h chain.HTTPMatch) chain.ServiceRoute {
		return chain.ServiceRoute{Match: &chain.RouteMatch{HTTP: &h}, Destination: toV2}
	}
	c.routes(
		by(chain.HTTPMatch{Header: []chain.HeaderMatch{{Name: "X-Canary", Exact: "1"}}}),
		by(chain.HTTPMatch{Header: []chain.HeaderMatch{{Name: "x-user", Prefix: "test-"}, {Name: "x-prod", Present: true, Invert: true}}}),
		by(chain.HTTPMatch{Header: []chain.HeaderMatch{{Name: "x-id", Regex: "[0-9]+"}}, Methods: []string{"POST", "GET"}}),
		by(chain.HTTPMatch{PathExact: "/shop.shop/exact", CaseInsensitive: true}),
		by(chain.HTTPMatch{PathRegex: "/shop\\.[A-Z].*/Regex"}),
		by(chain.HTTPMatch{PathPrefix: "/shop.Shop/Query", QueryParam: []chain.QueryParamMatch{{Name: "v", Exact: "2"}}}),
		by(chain.HTTPMatch{PathPrefix: "/shop.Shop/Got", Methods: []string{"GET"}}),
	)
	client := c.grpcClient("api")
	for _, call := range []struct {
		method string
		header []string
		want   string
	}{
		{"/shop.Shop/Get", nil, "v1"},
		{"/shop.Shop/Get", []string{"x-canary", "1"}, "v2"},
		{"/shop.Shop/Get", []string{"x-canary", "2"}, "v1"},
		{"/shop.Shop/Get", []string{"x-user", "test-a"}, "v2"},
		{"/shop.Shop/Get", []string{"x-user", "test-a", "x-prod", "1"}, "v1"},
		{"/shop.Shop/Get", []string{"x-id", "42"}, "v2"},
		{"/shop.Shop/Get", []string{"x-id", "42a"}, "v1"},
		{"/shop.Shop/Exact", nil, "v2"},
		{"/shop.Shop/Exactly", nil, "v1"},
		{"/shop.Shop/Regex", nil, "v2"},
		{"/shop.Shop/Query", nil, "v1"},
		{"/shop.Shop/Got", nil, "v1"},
	} {
		if who, err := client.Call(within(t, 10*time.Second), call.method, call.header...); who != call.want || err != nil {
			t.Errorf("%s %v: %q, %v, want %s", call.method, call.header, who, err, call.want)
		}
	}
	c.noNack()
	notes := strings.Join(c.proxy("web-grpc", xds.StateSynced).Notes, "\n")
	for _, want := range []string{"route 6: it is left out: gRPC calls have no query", "route 7: it is left out: gRPC calls are all POST"} {
		if !strings.Contains(notes, want) {
			t.Errorf("nobody is told %q:\n%s", want, notes)
		}
	}
}

func TestGRPCKeepsTimeoutsAndTriesAgain(t *testing.T) {
	c := startControl(t, nil)
	v1 := testenv.StartGRPCBackend(t, "v1", func(ctx context.Context, method string) error {
		md, _ := metadata.FromIncomingContext(ctx)
		tried := slices.Contains(md.Get("grpc-previous-rpc-attempts"), "2")
		switch {
		case strings.HasSuffix(method, "/Slow"):
			<-ctx.Done()
			return ctx.Err()
		case strings.HasSuffix(method, "/Flaky") && !tried:
			return status.Error(codes.ResourceExhausted, "busy")
		}
		return nil
	})
	c.load("api")
	c.instances("api", grpcAt("api", v1, facts.StatusPassing))
	c.grpcAPI(nil, nil)
	c.routes(
		onPath("/shop.Shop/Slow", chain.RouteDestination{RequestTimeout: 200 * time.Millisecond}),
		onPath("/shop.Shop/Flaky", chain.RouteDestination{NumRetries: 2, RetryOn: []string{"resource-exhausted", "retriable-4xx"}}),
	)
	client := c.grpcClient("api")
	start := time.Now()
	if _, err := client.Call(within(t, 10*time.Second), "/shop.Shop/Slow"); status.Code(err) != codes.DeadlineExceeded || time.Since(start) > 5*time.Second {
		t.Errorf("a slow call: %v after %s", err, time.Since(start))
	}
	if who, err := client.Call(within(t, 10*time.Second), "/shop.Shop/Flaky"); who != "v1" || err != nil {
		t.Errorf("a flaky call: %q, %v", who, err)
	}
	if _, err := client.Call(within(t, 10*time.Second), "/other.Other/Flaky"); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a flaky call without retries: %v", err)
	}
	c.noNack()
}

func TestGRPCFailsOverAndBack(t *testing.T) {
	c := startControl(t, nil)
	v1, v2 := testenv.StartGRPCBackend(t, "v1", nil), testenv.StartGRPCBackend(t, "v2", nil)
	c.load("api")
	c.grpcAPI(nil, map[string]chain.Failover{"v1": {ServiceSubset: "v2"}})
	at := func(first facts.CheckStatus) {
		c.instances("api", grpcAt("api", v1, first), grpcAt("api", v2, facts.StatusPassing))
	}
	at(facts.StatusPassing)
	client := c.grpcClient("api")
	answered(t, client, "v1")
	at(facts.StatusCritical)
	answered(t, client, "v2")
	at(facts.StatusPassing)
	answered(t, client, "v1")
	v1.Stop()
	answered(t, client, "v2")
	c.noNack()
}

func TestGRPCBalancesAsItCan(t *testing.T) {
	c := startControl(t, nil)
	list := []*facts.Instance{}
	for i := range 3 {
		b := testenv.StartGRPCBackend(t, fmt.Sprintf("b%d", i), nil)
		in := grpcAt("api", b, facts.StatusPassing)
		in.Service.Meta = map[string]string{"version": "v1"}
		list = append(list, in)
	}
	c.load("api")
	c.instances("api", list...)
	policy := func(lb *chain.LoadBalancer, want int) {
		t.Helper()
		c.grpcAPI(lb, nil)
		client := c.grpcClient("api")
		testenv.Eventually(t, 10*time.Second, func() error {
			if got := client.Tally(within(t, 10*time.Second), 60, "x-user", "ada"); len(got) != want || got["Unavailable"] > 0 {
				return fmt.Errorf("%+v: answered %v, want %d", lb, got, want)
			}
			return nil
		})
		c.noNack()
	}
	policy(&chain.LoadBalancer{Policy: "least_request", LeastRequestConfig: &chain.LeastRequestConfig{ChoiceCount: 1}}, 3)
	policy(&chain.LoadBalancer{Policy: "maglev"}, 3)
	policy(&chain.LoadBalancer{Policy: "random"}, 3)
	policy(&chain.LoadBalancer{
		Policy: "ring_hash", RingHashConfig: &chain.RingHashConfig{MinimumRingSize: 1 << 24, MaximumRingSize: 2048},
		HashPolicies: []chain.HashPolicy{{Field: "header", FieldValue: "x-user"}, {Field: "cookie", FieldValue: "c"}},
	}, 1)
	policy(&chain.LoadBalancer{Policy: "ring_hash", HashPolicies: []chain.HashPolicy{{SourceIP: true}}}, 1)
}
