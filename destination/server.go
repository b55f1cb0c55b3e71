package destination

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/internal/facts"
	conduitpb "github.com/catenary-mesh/catenary/internal/proto/conduit"
	pb "github.com/catenary-mesh/catenary/internal/proto/destination"
)

// Metrics counts what the server does. Its methods are called concurrently.
type Metrics interface {
	StreamOpened(form string)
	StreamClosed(form string)
	Response(typ string, resources, bytes int)
	// Encoded counts a set that was encoded, for all streams that have it.
	Encoded(typ string)
	// ProfileRoutes is how many routes of the profiles that are asked for are left out, because no profile can
	// say them, and how many lost their retries and timeout to those.
	ProfileRoutes(leftOut, weakened int)
	// NotSearched is among how many services no address is looked up, because there are too many.
	NotSearched(services int)
	// LinkerdProblems is how many chains that are asked about do not compile.
	LinkerdProblems(chains int)
}

// The forms of streams, and the types of what is sent, as metrics call them.
const (
	formLinkerd = "linkerd"
	formConduit = "conduit"
	formProfile = "linkerd-profile"

	typeEndpoints = "linkerd-endpoints"
	typeProfile   = "linkerd-profile"
)

// Guard decides who is served.
type Guard interface {
	// Admit is called once for each stream, with the stream's context. The error is a gRPC status.
	Admit(ctx context.Context, client string) (*Grant, error)
}

// Grant is the admission of one stream.
type Grant struct {
	// Reader is under which name the client's rights to read services are facts; empty when it may read
	// everything.
	Reader string
	// Revoked is closed when the admission ends; nil when it never does. Err then returns the status.
	Revoked <-chan struct{}
	Err     func() error
	// Release says that the stream is gone. It is called once.
	Release func()
}

// Config is what a server needs. Store, Logger, Metrics, Place and Guard are required.
type Config struct {
	Store   *facts.Store
	Logger  hclog.Logger
	Metrics Metrics
	Place   Place
	Guard   Guard
	// Suffix ends names of the form SERVICE.NAMESPACE.SUFFIX; empty for none.
	Suffix string
	// HTTP2 is given to endpoints in the mesh; nil for nothing.
	HTTP2 *pb.Http2ClientParams
	// Keepalive is how long a stream of endpoints is silent at the most, [DefaultKeepalive] by default.
	Keepalive time.Duration
	// MaxServices is among how many services addresses are looked up, 10,000 by default.
	MaxServices int
}

// DefaultKeepalive is how long a stream is silent, unless there is something to say.
const DefaultKeepalive = 30 * time.Second

// Server is the server of both services.
type Server struct {
	cfg   Config
	names Names
	hub   *hub
	subs  [3]*facts.Subscription // of the hub, and of what it looks up addresses and nodes in
	done  chan struct{}          // closed when Run ends

	lastID  atomic.Uint64
	mu      sync.Mutex // guards streams
	streams map[*stream]struct{}
}

// NewServer returns a server that serves once Run runs.
func NewServer(cfg Config) *Server {
	cfg.Keepalive = cmp.Or(cfg.Keepalive, DefaultKeepalive)
	cfg.MaxServices = cmp.Or(cfg.MaxServices, 10_000)
	return &Server{
		cfg: cfg, names: Names{Datacenter: cfg.Place.Datacenter, Suffix: cfg.Suffix}, hub: newHub(cfg),
		subs: [3]*facts.Subscription{cfg.Store.Subscribe(), cfg.Store.Subscribe(), cfg.Store.Subscribe()},
		done: make(chan struct{}), streams: map[*stream]struct{}{},
	}
}

// Run keeps the answers up to date until ctx ends, and then ends all streams. It is called once.
func (s *Server) Run(ctx context.Context) error {
	defer close(s.done)
	var group sync.WaitGroup
	group.Go(func() { s.hub.run(ctx, s.subs[0]) })
	group.Go(func() { s.hub.addresses.run(ctx, s.subs[1]) })
	group.Go(func() { s.hub.atlas.run(ctx, s.subs[2]) })
	group.Wait()
	return nil
}

// Register adds the services to a gRPC server. Others of Linkerd's are not there on purpose: a proxy takes it
// for an answer that nobody implements them.
func (s *Server) Register(g grpc.ServiceRegistrar) {
	pb.RegisterDestinationServer(g, modern{Server: s})
	conduitpb.RegisterDestinationServer(g, conduit{Server: s})
}

// modern is the service of today.
type modern struct {
	pb.UnimplementedDestinationServer
	*Server
}

// Get implements [pb.DestinationServer].
func (m modern) Get(q *pb.GetDestination, st grpc.ServerStreamingServer[pb.Update]) error {
	name, err := m.names.Parse(q.GetPath())
	if err != nil {
		return invalid(err)
	}
	return m.get(st, call{form: formLinkerd, path: q.GetPath(), name: name, encoder: Encoder{
		Origin: ParseToken(q.GetContextToken()), HTTP2: m.cfg.HTTP2,
	}})
}

// GetProfile implements [pb.DestinationServer].
func (m modern) GetProfile(q *pb.GetDestination, st grpc.ServerStreamingServer[pb.DestinationProfile]) error {
	name, addr, err := m.names.ParseTarget(q.GetPath())
	if err != nil {
		return invalid(err)
	}
	if addr.IsValid() {
		name = Name{}
	}
	c := call{form: formProfile, path: q.GetPath(), encoder: Encoder{Origin: ParseToken(q.GetContextToken()), HTTP2: m.cfg.HTTP2}}
	return m.profile(st, c, question{profile: true, name: name, addr: addr})
}

// conduit is the service of Conduit, whose scheme means nothing here either.
type conduit struct {
	conduitpb.UnimplementedDestinationServer
	*Server
}

// Get implements [conduitpb.DestinationServer].
func (c conduit) Get(q *conduitpb.Destination, st grpc.ServerStreamingServer[conduitpb.Update]) error {
	name, err := c.names.Parse(q.GetPath())
	if err != nil {
		return invalid(err)
	}
	return c.get(st, call{form: formConduit, path: q.GetPath(), name: name, encoder: Encoder{Conduit: true}})
}

func invalid(err error) error { return status.Error(codes.InvalidArgument, clip(err.Error())) }

// clip bounds what a client can make us write into a status.
func clip(text string) string {
	if len(text) > 4*maxText {
		return clean(text[:4*maxText]) + "..."
	}
	return text
}

// errEnding sends a client elsewhere.
var errEnding = status.Error(codes.Unavailable, "the control plane is ending; connect to another")

// errDatacenters keeps made-up names from having Consul asked about ever more datacenters.
var errDatacenters = status.Errorf(codes.ResourceExhausted, "names of %d other datacenters are asked for already", maxDatacenters)

func denied(service string) error {
	return status.Error(codes.PermissionDenied, clip(fmt.Sprintf("the client has no service:read on %q", service)))
}
