package integration_test

import (
	"context"
	"maps"
	"net"
	"sync"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
)

// relay stands between an Envoy and a control plane. It passes messages on as they are, counts them,
// and can lose some.
type relay struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	peer peer // the Envoy
	addr string

	mu    sync.Mutex
	to    string             // the control plane
	lost  string             // the type URL of the responses to lose
	cut   context.CancelFunc // ends the streams
	epoch context.Context    // ends when the streams that are open now are cut
	seen  counts
}

// counts are what passed a relay.
type counts struct {
	asked     map[string]int // requests by type URL
	responses map[string]int
	resources map[string]int
	bytes     int // of all responses
}

func newCounts() counts {
	return counts{asked: map[string]int{}, responses: map[string]int{}, resources: map[string]int{}}
}

func startRelay(t *testing.T, p peer, to string) *relay {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{peer: p, addr: lis.Addr().String(), to: to, seen: newCounts()}
	r.epoch, r.cut = context.WithCancel(context.Background())
	server := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(server, r)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(lis) }) // it ends when it is stopped
	t.Cleanup(func() {
		r.cut()
		server.Stop()
		serving.Wait()
	})
	return r
}

// hold loses the responses of a type from now on; an empty one loses none.
func (r *relay) hold(typeURL string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost = typeURL
}

// move cuts the streams; those that come are another control plane's. It counts anew.
func (r *relay) move(to string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to, r.seen = to, newCounts()
	r.cut()
	r.epoch, r.cut = context.WithCancel(context.Background())
}

// counted returns what passed since the last move.
func (r *relay) counted() counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return counts{
		asked: maps.Clone(r.seen.asked), responses: maps.Clone(r.seen.responses),
		resources: maps.Clone(r.seen.resources), bytes: r.seen.bytes,
	}
}

// StreamAggregatedResources implements the state of the world.
func (r *relay) StreamAggregatedResources(down discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	return pass(r, down, func(ctx context.Context, c discoveryv3.AggregatedDiscoveryServiceClient) (
		grpc.BidiStreamingClient[discoveryv3.DiscoveryRequest, discoveryv3.DiscoveryResponse], error,
	) {
		return c.StreamAggregatedResources(ctx)
	})
}

// DeltaAggregatedResources implements delta.
func (r *relay) DeltaAggregatedResources(down discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	return pass(r, down, func(ctx context.Context, c discoveryv3.AggregatedDiscoveryServiceClient) (
		grpc.BidiStreamingClient[discoveryv3.DeltaDiscoveryRequest, discoveryv3.DeltaDiscoveryResponse], error,
	) {
		return c.DeltaAggregatedResources(ctx)
	})
}

// opening opens a stream to the control plane.
type opening[Req, Resp any] func(context.Context, discoveryv3.AggregatedDiscoveryServiceClient) (grpc.BidiStreamingClient[Req, Resp], error)

// pass joins a stream of an Envoy with one to the control plane, until either ends.
func pass[Req, Resp any](r *relay, down grpc.BidiStreamingServer[Req, Resp], open opening[Req, Resp]) error {
	r.mu.Lock()
	to, epoch := r.to, r.epoch
	r.mu.Unlock()
	conn, err := grpc.NewClient(to, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(down.Context())
	defer cancel()
	defer context.AfterFunc(epoch, cancel)()
	up, err := open(ctx, discoveryv3.NewAggregatedDiscoveryServiceClient(conn))
	if err != nil {
		return err
	}
	go func() { // ends with the stream
		defer cancel()
		for {
			req, err := down.Recv()
			if err != nil {
				return
			}
			r.asked(epoch, any(req).(typed).GetTypeUrl())
			if up.Send(req) != nil {
				return
			}
		}
	}()
	for {
		resp, err := up.Recv()
		if err != nil {
			return err
		}
		if !r.answered(epoch, any(resp).(typed)) {
			continue
		}
		if err := down.Send(resp); err != nil {
			return err
		}
	}
}

// typed is any message of the discovery service.
type typed interface {
	proto.Message
	GetTypeUrl() string
}

func (r *relay) asked(epoch context.Context, typeURL string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if epoch.Err() == nil {
		r.seen.asked[typeURL]++
	}
}

// answered counts a response, and reports whether it is to be passed on.
func (r *relay) answered(epoch context.Context, m typed) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if epoch.Err() != nil || m.GetTypeUrl() == r.lost {
		return false
	}
	n := 0
	switch m := m.(type) {
	case *discoveryv3.DiscoveryResponse:
		n = len(m.GetResources())
	case *discoveryv3.DeltaDiscoveryResponse:
		n = len(m.GetResources()) + len(m.GetRemovedResources())
	}
	r.seen.responses[m.GetTypeUrl()]++
	r.seen.resources[m.GetTypeUrl()] += n
	r.seen.bytes += proto.Size(m)
	return true
}
