// Package grpcserver is the gRPC server that all clients connect to, whatever they speak: it brings TLS,
// health, reflection and the bounds of connections and streams, so that a service on it has only its own
// protocol to look after. What is served is registered with it; it knows nothing of what that means.
package grpcserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/reflection"
)

// Metrics counts what the server does. Its methods are called concurrently.
type Metrics interface {
	// GRPCConnections adds to the connections that are open now, and GRPCStreams to the streams. With
	// 0 they make the figure known.
	GRPCConnections(delta int)
	GRPCStreams(delta int)
	// GRPCRefused counts n refusals for a reason, one of [Reasons]. With 0 it makes the reason known.
	GRPCRefused(reason string, n int)
	// GRPCCertificate is called for each certificate that was read: until when it is valid, or why it
	// cannot be used.
	GRPCCertificate(expires time.Time, err error)
}

// Config is what a server needs. Logger and Metrics are required.
type Config struct {
	Logger  hclog.Logger
	Metrics Metrics
	// TLS names the certificate; the zero value serves plaintext.
	TLS Files
	// MaxConnectionAge is how old a connection gets, give or take a tenth, before its client is sent
	// elsewhere: the contexts of its streams end, and then it does. 0 lets it live.
	MaxConnectionAge time.Duration
	// MaxStreams is how many streams there can be on all connections, [DefaultMaxStreams] by default.
	MaxStreams int
	// Options are added to the server's own: a codec, interceptors.
	Options []grpc.ServerOption

	// bounds are other ones in tests.
	bounds *bounds
}

// Server is the gRPC server. Create one with [New], register services, and call [Server.Run].
type Server struct {
	cfg    Config
	bounds bounds
	grpc   *grpc.Server
	health *health.Server
	certs  *certificates // nil in plaintext
	log    seldom

	connections, streams, side pool

	mu        sync.Mutex // guards all in this group
	names     []string   // of the services whose health is told
	ready     bool
	beginning map[*conn]struct{} // connections on which HTTP/2 has not begun

	stop   sync.Once
	ending chan struct{}  // closed when the server begins to end
	sides  sync.WaitGroup // the streams of health and reflection
}

// New returns a server that has health and reflection, and serves once it runs. Its errors name the flag
// and the file that is wrong.
func New(cfg Config) (*Server, error) {
	s := &Server{
		cfg: cfg, bounds: defaultBounds(), health: health.NewServer(),
		beginning: map[*conn]struct{}{}, ending: make(chan struct{}),
	}
	if cfg.bounds != nil {
		s.bounds = *cfg.bounds
	}
	if err := s.size(); err != nil {
		return nil, err
	}
	s.log.logger = cfg.Logger
	options := s.options()
	if cfg.TLS != (Files{}) {
		var err error
		if s.certs, err = openCertificates(cfg); err != nil {
			return nil, err
		}
		options = append(options, grpc.Creds(s.certs.credentials()))
	}
	s.grpc = grpc.NewServer(append(options, cfg.Options...)...)
	cfg.Metrics.GRPCConnections(0)
	cfg.Metrics.GRPCStreams(0)
	for _, reason := range Reasons() {
		cfg.Metrics.GRPCRefused(reason, 0)
	}
	s.registerHealth()
	reflection.Register(s.grpc)
	return s, nil
}

// size sets how much there can be of everything.
func (s *Server) size() error {
	if age := s.cfg.MaxConnectionAge; age != 0 && age < time.Second {
		return fmt.Errorf("--grpc-max-connection-age %s is too short: give 1s or more, or 0 for no limit", age)
	}
	if s.cfg.MaxStreams == 0 {
		s.cfg.MaxStreams = DefaultMaxStreams
	}
	if s.cfg.MaxStreams < 0 {
		return fmt.Errorf("--max-streams %d: give 1 or more", s.cfg.MaxStreams)
	}
	s.streams.max, s.streams.reason, s.streams.moved = int64(s.cfg.MaxStreams), ReasonStreams, s.cfg.Metrics.GRPCStreams
	s.streams.full = "on this server is reached: connect to another replica, or raise --max-streams"
	s.side.max, s.side.reason = maxSideStreams, ReasonSideStreams
	s.side.full = "of health and reflection is reached: end some, or ask for the health by Check"
	s.connections.max, s.connections.moved = connectionsPerStream*s.streams.max, s.cfg.Metrics.GRPCConnections
	return nil
}

// RegisterService implements [grpc.ServiceRegistrar]. It is called before Run.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, impl any) {
	s.grpc.RegisterService(desc, impl)
	s.tellHealthOf(desc.ServiceName)
}

// Run serves on the listener, and follows the files of the certificate, until the server is stopped or
// the context ends, which stops it. It closes the listener.
func (s *Server) Run(ctx context.Context, listener net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var others sync.WaitGroup
	if s.certs != nil {
		others.Go(func() { s.certs.follow(ctx) })
	}
	others.Go(func() {
		<-ctx.Done()
		s.Stop(func() {})
	})
	defer others.Wait()
	defer cancel()
	err := s.grpc.Serve(tracked{listener, s})
	if err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve gRPC on %s: %w", listener.Addr(), err)
	}
	return nil
}

// Stop ends the server: it says that it no longer serves, takes no more connections and tells those it
// has to go, has the streams ended by endStreams, and cuts off what has not ended in time. It returns
// when all is over, also when another call does the work.
func (s *Server) Stop(endStreams func()) {
	s.stop.Do(func() {
		s.health.Shutdown()
		close(s.ending)
		s.cutBeginning()
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			s.grpc.GracefulStop()
		}()
		endStreams()
		timeout := time.NewTimer(s.bounds.drain)
		defer timeout.Stop()
		select {
		case <-stopped:
		case <-timeout.C:
			s.grpc.Stop()
			<-stopped
		}
		s.sides.Wait()
	})
}

// isEnding reports whether the server has begun to end.
func (s *Server) isEnding() bool {
	select {
	case <-s.ending:
		return true
	default:
		return false
	}
}
