package server_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/hds/server"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	patience = 60 * time.Second // on a machine with ten times as much to do as it can
	interval = 50 * time.Millisecond
)

var confirmed = facts.Reading{Confirmed: true}

// rig is a server over facts of its own, at a port.
type rig struct {
	t      *testing.T
	store  *facts.Store
	server *server.Server
	addr   string
	stop   func()
}

func newRig(t *testing.T, change func(*server.Config)) *rig {
	t.Helper()
	r := &rig{t: t, store: facts.New()}
	cfg := server.Config{
		Store: r.store, Logger: hclog.NewNullLogger(), Datacenter: "dc1", TrustDomain: "catenary.local",
		ReportInterval: interval,
	}
	if change != nil {
		change(&cfg)
	}
	r.store.Commit(func(tx *facts.Tx) { tx.CloseWorld() })
	r.server = server.New(cfg)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.addr = listener.Addr().String()
	g := grpc.NewServer()
	r.server.Register(g)
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { _ = g.Serve(listener) })
	group.Go(func() { _ = r.server.Run(ctx) })
	r.stop = sync.OnceFunc(func() {
		cancel()
		g.Stop()
		group.Wait()
	})
	t.Cleanup(r.stop)
	return r
}

// service registers instances of a service at ports, whose probes the Meta of its defaults asks for.
func (r *rig) service(name string, meta map[string]string, ports ...int) {
	var list []*facts.Instance
	for _, p := range ports {
		list = append(list, &facts.Instance{
			Node:    facts.Node{Node: fmt.Sprintf("n%d", p), Address: "127.0.0.1", ModifyIndex: 1},
			Service: facts.Service{ID: fmt.Sprintf("%s-%d", name, p), Service: name, Port: p, ModifyIndex: 1},
		})
	}
	r.store.Commit(func(tx *facts.Tx) {
		entry := &chain.ServiceDefaults{Header: chain.Header{Name: name, Meta: meta}}
		tx.Entries(chain.KindServiceDefaults, []chain.Entry{entry}, confirmed)
		tx.Instances(facts.Health("dc1", name), list, confirmed)
	})
}

// tcp has a service probed fast.
func tcp() map[string]string {
	return map[string]string{"hds-protocol": "tcp", "hds-interval": "100ms", "hds-timeout": "50ms", "hds-healthy-threshold": "1"}
}

// verdicts waits until the facts say of a service's ports what is up; a port that is left out has no verdict.
func (r *rig) verdicts(service string, want map[int]bool) {
	r.t.Helper()
	testenv.Eventually(r.t, patience, func() error {
		got, _ := r.store.View().Verdicts(facts.Health("dc1", service))
		if len(got) != len(want) {
			return fmt.Errorf("verdicts %v, want %v", got, want)
		}
		for addr, v := range got {
			if up, ok := want[int(addr.Port())]; !ok || up != v.Up {
				return fmt.Errorf("verdicts %v, want %v", got, want)
			}
		}
		return nil
	})
}

// checker is a simulated Envoy that probes nothing, and reports what the test wants.
type checker struct {
	t      *testing.T
	stream grpc.ClientStream
	stop   context.CancelFunc
	ended  chan error // why the stream ended

	mu     sync.Mutex
	spec   *healthv3.HealthCheckSpecifier
	specs  int
	health func(port uint32) corev3.HealthStatus
	mute   bool
}

func allUp(uint32) corev3.HealthStatus   { return corev3.HealthStatus_HEALTHY }
func allDown(uint32) corev3.HealthStatus { return corev3.HealthStatus_UNHEALTHY }

// hello is the first message of a checker, whose ID may end in @ and the node that it says it is on.
func hello(id string) *healthv3.HealthCheckRequestOrEndpointHealthResponse {
	id, node, _ := strings.Cut(id, "@")
	metadata := &structpb.Struct{Fields: map[string]*structpb.Value{"node_name": structpb.NewStringValue(node)}}
	return &healthv3.HealthCheckRequestOrEndpointHealthResponse{RequestType: &healthv3.HealthCheckRequestOrEndpointHealthResponse_HealthCheckRequest{
		HealthCheckRequest: &healthv3.HealthCheckRequest{
			Node: &corev3.Node{Id: id, Cluster: "checker", Metadata: metadata},
			Capability: &healthv3.Capability{HealthCheckProtocols: []healthv3.Capability_Protocol{
				healthv3.Capability_HTTP, healthv3.Capability_TCP,
			}},
		},
	}}
}

func (r *rig) dial() *grpc.ClientConn {
	r.t.Helper()
	conn, err := grpc.NewClient(r.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	return conn
}

const streamV3 = "/envoy.service.health.v3.HealthDiscoveryService/StreamHealthCheck"

// checker connects one by a stream; it goes with the test.
func (r *rig) checker(id string, health func(uint32) corev3.HealthStatus, header ...string) *checker {
	r.t.Helper()
	return r.checkerBy(streamV3, id, health, header...)
}

func (r *rig) checkerBy(method, id string, health func(uint32) corev3.HealthStatus, header ...string) *checker {
	r.t.Helper()
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(context.Background(), header...))
	st, err := r.dial().NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err == nil {
		err = st.SendMsg(hello(id))
	}
	if err != nil {
		cancel()
		r.t.Fatal(err)
	}
	c := &checker{t: r.t, stream: st, health: health, ended: make(chan error, 1)}
	var group sync.WaitGroup
	group.Go(c.read)
	group.Go(func() { c.report(ctx) })
	c.stop = func() { cancel(); group.Wait() }
	r.t.Cleanup(c.stop)
	return c
}

func (c *checker) read() {
	for {
		m := &healthv3.HealthCheckSpecifier{}
		if err := c.stream.RecvMsg(m); err != nil {
			c.ended <- err
			return
		}
		c.mu.Lock()
		c.spec = m
		c.specs++
		c.mu.Unlock()
	}
}

func (c *checker) report(ctx context.Context) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		c.mu.Lock()
		spec, mute, health := c.spec, c.mute, c.health
		c.mu.Unlock()
		if spec == nil || mute {
			continue
		}
		if err := c.stream.SendMsg(reportOn(spec, health)); err != nil {
			return
		}
	}
}

// reportOn is what an Envoy with the specifier says.
func reportOn(spec *healthv3.HealthCheckSpecifier, health func(uint32) corev3.HealthStatus) *healthv3.HealthCheckRequestOrEndpointHealthResponse {
	m := &healthv3.EndpointHealthResponse{}
	for _, cl := range spec.GetClusterHealthChecks() {
		cluster := &healthv3.ClusterEndpointsHealth{ClusterName: cl.GetClusterName()}
		for _, l := range cl.GetLocalityEndpoints() {
			locality := &healthv3.LocalityEndpointsHealth{Locality: l.GetLocality()}
			for _, e := range l.GetEndpoints() {
				port := e.GetAddress().GetSocketAddress().GetPortValue()
				h := &healthv3.EndpointHealth{
					Endpoint: &endpointv3.Endpoint{Address: e.GetAddress()}, HealthStatus: health(port),
				}
				locality.EndpointsHealth = append(locality.EndpointsHealth, h)
				m.EndpointsHealth = append(m.EndpointsHealth, h) //nolint:staticcheck // Envoy fills both
			}
			cluster.LocalityEndpointsHealth = append(cluster.LocalityEndpointsHealth, locality)
		}
		m.ClusterEndpointsHealth = append(m.ClusterEndpointsHealth, cluster)
	}
	return &healthv3.HealthCheckRequestOrEndpointHealthResponse{
		RequestType: &healthv3.HealthCheckRequestOrEndpointHealthResponse_EndpointHealthResponse{EndpointHealthResponse: m},
	}
}

func (c *checker) set(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// ports are those that the checker was told to probe, in order.
func (c *checker) ports() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ports []int
	for _, cl := range c.spec.GetClusterHealthChecks() {
		for _, l := range cl.GetLocalityEndpoints() {
			for _, e := range l.GetEndpoints() {
				ports = append(ports, int(e.GetAddress().GetSocketAddress().GetPortValue()))
			}
		}
	}
	slices.Sort(ports)
	return ports
}

// probes waits until the checker was told to probe exactly these ports.
func (c *checker) probes(ports ...int) {
	c.t.Helper()
	testenv.Eventually(c.t, patience, func() error {
		if got := c.ports(); !slices.Equal(got, ports) {
			return fmt.Errorf("it probes %v, want %v", got, ports)
		}
		return nil
	})
}
