// Package xds serves products to Envoy and other xDS clients: one goroutine a stream writes to it,
// and one publisher makes, encodes and publishes what changed. There is no queue of updates: a slow
// reader finds the latest when it next reads.
package xds

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/xds/session"
)

// Metrics counts what the server does. Its methods are called concurrently.
type Metrics interface {
	StreamOpened(form string)
	StreamClosed(form string)
	Response(typ string, resources, bytes int)
	Nack(typ string)
	RouteWaited()
	PlanRun()
	ProductMade(kind string)
	// Problems is how many chains do not compile now.
	Problems(n int)
}

// Config is what a server needs. All fields are required, but for PlaintextMesh.
type Config struct {
	Store      *facts.Store
	Logger     hclog.Logger
	Metrics    Metrics
	Datacenter string
	// TrustDomain is the whole domain, such as "<uuid>.consul".
	TrustDomain string
	// PlaintextMesh serves registered sidecars without identity, for measuring.
	PlaintextMesh bool
}

// Server is the xDS server.
type Server struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	cfg  Config
	pub  *publisher
	sub  *facts.Subscription
	done chan struct{} // closed when Run ends

	lastID  atomic.Uint64
	mu      sync.Mutex // guards streams
	streams map[*stream]struct{}
}

// NewServer returns a server that serves once Run runs.
func NewServer(cfg Config) *Server {
	return &Server{
		cfg: cfg, pub: newPublisher(cfg), sub: cfg.Store.Subscribe(),
		done: make(chan struct{}), streams: map[*stream]struct{}{},
	}
}

// Register adds the services to a gRPC server.
func (s *Server) Register(g *grpc.Server) {
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(g, s)
}

// Run publishes changes of facts until ctx ends, and then ends all streams. It is called once.
func (s *Server) Run(ctx context.Context) error {
	defer close(s.done)
	s.pub.run(ctx, s.sub)
	return nil
}

// StreamAggregatedResources implements the aggregated service in its state-of-the-world form.
func (s *Server) StreamAggregatedResources(st discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	return s.serve(sotw{st})
}

// DeltaAggregatedResources implements the aggregated service in its incremental form.
func (s *Server) DeltaAggregatedResources(st discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	return s.serve(delta{st})
}

// firstRequest is how long a client may take to say who it is.
const firstRequest = 30 * time.Second

// open waits for the first request, which names the node, and plans the client.
func (s *Server) open(ctx context.Context, t transport, requests <-chan *session.Request, failed <-chan error) (*stream, error) {
	timeout := time.NewTimer(firstRequest)
	defer timeout.Stop()
	var req *session.Request
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.done:
		return nil, status.Error(codes.Unavailable, "the control plane is ending; connect to another")
	case err := <-failed:
		return nil, err
	case <-timeout.C:
		return nil, status.Errorf(codes.DeadlineExceeded, "no request within %s of opening the stream", firstRequest)
	case req = <-requests:
	}
	id, err := identify(req.Node, t.peer())
	if err != nil {
		return nil, err
	}
	st := &stream{
		id:     fmt.Sprintf("%s#%d", id.client.ID, s.lastID.Add(1)),
		client: id.client, version: id.version,
		form: t.form(), peer: t.peer(), connected: time.Now(),
		bell:    make(chan struct{}, 1),
		dirty:   map[dirt]struct{}{},
		session: session.New(session.Config{Form: t.form(), ControlPlane: "catenary"}),
	}
	if err := s.request(st, req); err != nil {
		return nil, err
	}
	s.pub.join(st)
	s.mu.Lock()
	s.streams[st] = struct{}{}
	s.mu.Unlock()
	s.cfg.Metrics.StreamOpened(formName(st.form))
	s.cfg.Logger.Info("a proxy connected", "proxy", st.client.ID, "service", st.client.Service,
		"address", st.peer.String(), "protocol", formName(st.form), "version", st.version)
	return st, nil
}

func (s *Server) close(st *stream) {
	s.mu.Lock()
	delete(s.streams, st)
	s.mu.Unlock()
	s.pub.leave(st)
	s.cfg.Metrics.StreamClosed(formName(st.form))
	s.cfg.Logger.Info("a proxy disconnected", "proxy", st.client.ID, "address", st.peer.String())
}

// request gives the session one message of the client.
func (s *Server) request(st *stream, req *session.Request) error {
	now := time.Now()
	st.mu.Lock()
	err := st.session.Request(now, req)
	st.mu.Unlock()
	if err != nil {
		return status.Errorf(codes.InvalidArgument, "proxy %q: %v", st.client.ID, err)
	}
	if req.Error != nil {
		s.refused(st, req)
	}
	return nil
}

// refused logs and counts a NACK. The session has kept what it says.
func (s *Server) refused(st *stream, req *session.Request) {
	name := req.TypeURL
	if t, ok := session.TypeByURL(req.TypeURL); ok {
		name = t.Name
	}
	s.cfg.Metrics.Nack(name)
	s.cfg.Logger.Warn("a proxy refused what it was sent (NACK); what it accepted before stays in force there",
		"proxy", st.client.ID, "type", name, "error", clip(req.Error.Message))
}

// maxLogged bounds a client's text in our log.
const maxLogged = 1024

func clip(text string) string {
	if len(text) > maxLogged {
		return text[:maxLogged] + "..."
	}
	return text
}
