package grpcserver

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// pool counts how many there are of something, up to a maximum.
type pool struct {
	n   atomic.Int64
	max int64
}

// take reports whether one more may be there, which is then given back.
func (p *pool) take() bool {
	if p.n.Add(1) > p.max {
		p.n.Add(-1)
		return false
	}
	return true
}

func (p *pool) give() { p.n.Add(-1) }

// admitCall lets a call with one answer through. It is short, so that the number of streams that gRPC
// allows on a connection is bound enough; and health must be told however many streams there are.
func (s *Server) admitCall(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := s.checkHeaders(ctx); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

// admitStream lets a stream through when there is room for it.
func (s *Server) admitStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if err := s.checkHeaders(stream.Context()); err != nil {
		return err
	}
	conn := connectionOf(stream.Context())
	if !conn.streams.take() {
		return s.full(ReasonConnectionStreams, conn.streams.max, "on one connection is reached: open another connection")
	}
	defer conn.streams.give()
	if isSide(info.FullMethod) {
		return s.serveSide(srv, stream, next)
	}
	if !s.streams.take() {
		return s.full(ReasonStreams, s.streams.max, "on this server is reached: connect to another replica, or raise --max-streams")
	}
	defer s.streams.give()
	s.cfg.Metrics.GRPCStreams(1)
	defer s.cfg.Metrics.GRPCStreams(-1)
	return next(srv, stream)
}

// full refuses a stream.
func (s *Server) full(reason string, limit int64, what string) error {
	s.refused(reason, "a stream is refused: the limit of streams "+what, "limit", limit)
	return status.Errorf(codes.ResourceExhausted, "the limit of %d streams %s", limit, what)
}

// isSide holds for the streams of what every gRPC server has, and no client is served by.
func isSide(method string) bool {
	return strings.HasPrefix(method, "/grpc.health.") || strings.HasPrefix(method, "/grpc.reflection.")
}

// serveSide serves a stream of health or reflection until the server ends. They would go on, and a
// server that ends would wait for them.
func (s *Server) serveSide(srv any, stream grpc.ServerStream, next grpc.StreamHandler) error {
	if !s.side.take() {
		return s.full(ReasonSideStreams, s.side.max, "of health and reflection is reached: end some, or ask for the health by Check")
	}
	defer s.side.give()
	ended := make(chan error, 1)
	s.sides.Go(func() { ended <- next(srv, stream) })
	select {
	case err := <-ended:
		return err
	case <-s.ending:
	}
	// Watchers hear that the server does not serve before their streams end.
	select {
	case err := <-ended:
		return err
	case <-time.After(s.bounds.lastWord):
		return status.Error(codes.Unavailable, "the control plane is ending; connect to another")
	}
}

// fieldOverhead is what HTTP/2 counts for a header beside its name and value (RFC 9113, section 6.5.2).
const fieldOverhead = 32

// checkHeaders refuses metadata that is too large.
func (s *Server) checkHeaders(ctx context.Context) error {
	md, _ := metadata.FromIncomingContext(ctx)
	size := 0
	for name, values := range md {
		for _, v := range values {
			size += len(name) + len(v) + fieldOverhead
		}
	}
	if size <= maxHeaders {
		return nil
	}
	s.refused(ReasonHeaders, "a request is refused: its headers are too large", "bytes", size, "limit", maxHeaders)
	return status.Errorf(codes.ResourceExhausted,
		"the request has %d bytes of headers, more than the limit of %d: send fewer or shorter ones", size, maxHeaders)
}
