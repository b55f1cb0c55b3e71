//go:build e2e

// Package figures holds what the program promises of itself in numbers to a real Consul, where that takes
// long: how soon a change arrives, what a first sync takes, and what Consul is asked while nothing happens.
// `make e2e` runs it; each test prints what it measured.
package figures_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/catenary-mesh/catenary/consulwatch"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/proto/subscribe"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

const (
	trustDomain = "figures.example"
	// generous is how many times what is promised of a machine of its own a shared one may take.
	generous = 3
)

// quantiles of measured times.
type times []time.Duration

func (list times) at(percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[(len(sorted)-1)*percent/100]
}

func (list times) String() string {
	return fmt.Sprintf("p50 %v, p99 %v", list.at(50), list.at(99))
}

// source is a followed Consul in this process.
func source(t *testing.T, cfg consulwatch.Config) (*consulwatch.Source, *facts.Store) {
	t.Helper()
	s, err := consulwatch.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	store, done := facts.New(), make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { done <- s.Run(ctx, store) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s, store
}

// connect opens connections with what a server has to be told first.
func connect(t *testing.T, addr string, greeting ...byte) *grpc.ClientConn {
	t.Helper()
	dial := func(ctx context.Context, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err == nil {
			_, err = conn.Write(greeting)
		}
		return conn, err
	}
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(dial))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// events hands over when each event about the health of a service came from Consul itself.
func events(t *testing.T, c *testenv.Consul, service string) <-chan time.Time {
	t.Helper()
	const grpcFollows = 8
	st, err := subscribe.NewStateChangeSubscriptionClient(connect(t, c.RPCAddr(), grpcFollows)).Subscribe(t.Context(), &subscribe.SubscribeRequest{
		Topic: subscribe.Topic_ServiceHealth, Subject: &subscribe.SubscribeRequest_NamedSubject{NamedSubject: &subscribe.NamedSubject{Key: service}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for ended := false; !ended; {
		e, err := st.Recv()
		if err != nil {
			t.Fatal(err)
		}
		ended = e.GetEndOfSnapshot()
	}
	came := make(chan time.Time, 1000)
	go func() {
		for {
			if _, err := st.Recv(); err != nil {
				return // the test has ended
			}
			came <- time.Now()
		}
	}()
	return came
}

// client opens a delta stream as a proxy that needs services would, and hands over when each response
// with endpoints came.
func client(t *testing.T, conn *grpc.ClientConn, id string, services []string) <-chan time.Time {
	t.Helper()
	var upstreams []any
	var names []string
	for i, s := range services {
		upstreams = append(upstreams, map[string]any{"service": s, "bind_address": "127.0.0.1", "bind_port": 9000 + i})
		names = append(names, fmt.Sprintf("%s.default.dc1.internal.%s", s, trustDomain))
	}
	meta, err := structpb.NewStruct(map[string]any{"catenary": map[string]any{"service": "web", "upstreams": upstreams}})
	if err != nil {
		t.Fatal(err)
	}
	st, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, req := range []*discoveryv3.DeltaDiscoveryRequest{
		{Node: &corev3.Node{Id: id, Cluster: "web", Metadata: meta}, TypeUrl: resourcev3.ClusterType},
		{TypeUrl: resourcev3.EndpointType, ResourceNamesSubscribe: names},
	} {
		if err := st.Send(req); err != nil {
			t.Fatal(err)
		}
	}
	came := make(chan time.Time, 1000)
	go func() {
		for {
			resp, err := st.Recv()
			if err != nil {
				return // the test has ended
			}
			if resp.GetTypeUrl() == resourcev3.EndpointType {
				came <- time.Now()
			}
			ack := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: resp.GetTypeUrl(), ResponseNonce: resp.GetNonce()}
			if st.Send(ack) != nil {
				return
			}
		}
	}()
	return came
}

// watch is what a test reads of /api/v1/watches.
type watch struct{ Topic, Mode, Server string }

// settled waits until that many clients have all they need, which that many services are followed for by
// events.
func settled(t *testing.T, c *testenv.Catenary, services, clients int) []watch {
	t.Helper()
	var list []watch
	testenv.Eventually(t, time.Minute, func() error {
		var proxies []struct{ State string }
		if err := c.API("/api/v1/proxies", &proxies); err != nil {
			return err
		}
		synced := 0
		for _, p := range proxies {
			if p.State == "SYNCED" {
				synced++
			}
		}
		list = nil
		if err := c.API("/api/v1/watches", &list); err != nil {
			return err
		}
		streaming := 0
		for _, w := range list {
			if w.Mode == string(consulwatch.ModeStreaming) && strings.HasPrefix(w.Topic, "health/") {
				streaming++
			}
		}
		if streaming != services || synced != clients {
			return fmt.Errorf("%d services are streaming, want %d; %d proxies are synced, want %d", streaming, services, synced, clients)
		}
		return nil
	})
	return list
}
