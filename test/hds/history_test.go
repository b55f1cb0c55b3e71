package hds_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/structpb"
)

// history is a client of endpoint sets that misses nothing which an Envoy may only have between two looks at it.
// Like an Envoy it comes back, and says what it has.
type history struct {
	t     *testing.T
	node  *corev3.Node
	names []string

	mu       sync.Mutex
	versions map[string]string
	health   map[int][]change
	ports    map[string][]int // of a set
}

// change is a health that an endpoint got.
type change struct {
	at time.Time
	to string
}

// watch follows the endpoint sets of services until the test ends.
func (f *fleet) watch(services ...string) *history {
	f.t.Helper()
	h := &history{t: f.t, versions: map[string]string{}, health: map[int][]change{}, ports: map[string][]int{}}
	var upstreams []any
	for i, s := range services {
		upstreams = append(upstreams, map[string]any{"service": s, "bind_port": 10000 + i})
		h.names = append(h.names, setOf(s))
	}
	declared, err := structpb.NewStruct(map[string]any{"catenary": map[string]any{"service": "web", "upstreams": upstreams}})
	if err != nil {
		f.t.Fatal(err)
	}
	h.node = &corev3.Node{Id: "historian", Cluster: "web", Metadata: declared}
	soon := grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1, MaxDelay: 50 * time.Millisecond}}
	conn, err := grpc.NewClient(f.catenary.GRPCAddr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithConnectParams(soon))
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		for ctx.Err() == nil {
			_ = h.follow(ctx, conn) // the server may go away, and comes back
		}
	})
	f.t.Cleanup(func() {
		cancel()
		group.Wait()
		conn.Close()
	})
	return h
}

// setOf is the name of the endpoint set of a service.
func setOf(service string) string { return service + ".default.dc1.internal.catenary.local" }

// follow is one stream.
func (h *history) follow(ctx context.Context, conn *grpc.ClientConn) error {
	st, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx, grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	h.mu.Lock()
	first := &discoveryv3.DeltaDiscoveryRequest{
		Node: h.node, TypeUrl: resourcev3.EndpointType, ResourceNamesSubscribe: h.names,
		InitialResourceVersions: maps.Clone(h.versions),
	}
	h.mu.Unlock()
	if err := st.Send(first); err != nil {
		return err
	}
	for {
		m, err := st.Recv()
		if err != nil {
			return err
		}
		for _, r := range m.GetResources() {
			h.take(time.Now(), r)
		}
		if err := st.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: m.GetTypeUrl(), ResponseNonce: m.GetNonce()}); err != nil {
			return err
		}
	}
}

func (h *history) take(now time.Time, r *discoveryv3.Resource) {
	set := &endpointv3.ClusterLoadAssignment{}
	if err := r.GetResource().UnmarshalTo(set); err != nil {
		h.t.Errorf("%s: %v", r.GetName(), err)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.versions[r.GetName()] = r.GetVersion()
	var ports []int
	for _, l := range set.GetEndpoints() {
		for _, e := range l.GetLbEndpoints() {
			port := int(e.GetEndpoint().GetAddress().GetSocketAddress().GetPortValue())
			to := e.GetHealthStatus().String()
			if to == "UNKNOWN" {
				to = "HEALTHY" // to Envoy it is the same
			}
			ports = append(ports, port)
			h.note(now, port, to)
		}
	}
	for _, port := range h.ports[r.GetName()] {
		if !slices.Contains(ports, port) {
			h.note(now, port, "GONE")
		}
	}
	h.ports[r.GetName()] = ports
}

func (h *history) note(now time.Time, port int, to string) {
	if had := h.health[port]; len(had) == 0 || had[len(had)-1].to != to {
		h.health[port] = append(had, change{now, to})
	}
}

// of returns what a port has been, in order.
func (h *history) of(port int) []change {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.health[port])
}

// String is what every port has been.
func (h *history) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var b strings.Builder
	for _, port := range slices.Sorted(maps.Keys(h.health)) {
		fmt.Fprintf(&b, "%d:", port)
		for _, c := range h.health[port] {
			b.WriteString(" " + c.to)
		}
		b.WriteString("; ")
	}
	return b.String()
}

// is reports whether a port is at a health: an Envoy may have heard of it before.
func (h *history) is(port int, want string) error {
	was := h.of(port)
	if len(was) == 0 || was[len(was)-1].to != want {
		return fmt.Errorf("the port %d has been %v, and is not %s yet", port, was, want)
	}
	return nil
}

// only fails when a port has been anything else than these, in this order.
func (h *history) only(port int, want ...string) error {
	var got []string
	for _, c := range h.of(port) {
		got = append(got, c.to)
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("the port %d has been %v, and was to be %v", port, got, want)
	}
	return nil
}
