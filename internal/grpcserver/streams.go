package grpcserver

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// admitCall lets a call with one answer through when there is room for it. Health can always be asked
// for: whoever looks after a server that is full must not take it for dead.
func (s *Server) admitCall(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if isSide(info.FullMethod) {
		if err := s.checkHeaders(ctx); err != nil {
			return nil, err
		}
		return next(ctx, req)
	}
	release, err := s.admit(ctx, &s.streams)
	if err != nil {
		return nil, err
	}
	defer release()
	return next(ctx, req)
}

// admitStream lets a stream through when there is room for it.
func (s *Server) admitStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	side := isSide(info.FullMethod)
	in := &s.streams
	if side {
		in = &s.side
	}
	release, err := s.admit(stream.Context(), in)
	if err != nil {
		return err
	}
	defer release()
	if side {
		return s.serveSide(srv, stream, next)
	}
	err = s.untilOld(srv, stream, next)
	s.sendAway(stream.Context(), err)
	return err
}

// admit takes the place of a call on its connection and in a pool; release gives it back.
func (s *Server) admit(ctx context.Context, in *pool) (release func(), err error) {
	if err := s.checkHeaders(ctx); err != nil {
		return nil, err
	}
	on := &connectionOf(ctx).streams
	if !on.take() {
		return nil, s.full(on)
	}
	if !in.take() {
		on.give()
		return nil, s.full(in)
	}
	return func() { in.give(); on.give() }, nil
}

// full refuses a call for which a pool has no room.
func (s *Server) full(p *pool) error {
	s.refused(p.reason, "a stream is refused: the limit of streams "+p.full, "limit", p.max)
	return status.Errorf(codes.ResourceExhausted, "the limit of %d streams %s", p.max, p.full)
}

// isSide holds for the streams of what every gRPC server has, and no client is served by.
func isSide(method string) bool {
	return strings.HasPrefix(method, "/grpc.health.") || strings.HasPrefix(method, "/grpc.reflection.")
}

// serveSide serves a stream of health or reflection until the server ends. They would go on, and a
// server that ends would wait for them.
func (s *Server) serveSide(srv any, stream grpc.ServerStream, next grpc.StreamHandler) error {
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
