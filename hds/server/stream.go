package server

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"time"

	healthv2 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v2"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/catenary-mesh/catenary/hds"
	"github.com/catenary-mesh/catenary/xds"
)

// Register adds health discovery to a gRPC server, under its name and that of its predecessor.
func (s *Server) Register(g grpc.ServiceRegistrar) {
	g.RegisterService(s.describe(healthv3.HealthDiscoveryService_ServiceDesc, false), s)
	g.RegisterService(s.describe(healthv2.HealthDiscoveryService_ServiceDesc, true), s)
}

// describe returns the description of a service with its methods served by s. The messages of both versions
// have one form on the wire, as far as they are used.
func (s *Server) describe(desc grpc.ServiceDesc, v2 bool) *grpc.ServiceDesc {
	out := &grpc.ServiceDesc{ServiceName: desc.ServiceName, HandlerType: (*any)(nil), Metadata: desc.Metadata}
	for _, m := range desc.Streams {
		m.Handler = func(_ any, st grpc.ServerStream) error { return s.serve(st, v2) }
		out.Streams = append(out.Streams, m)
	}
	for _, m := range desc.Methods {
		m.Handler = s.fetchMethod("/"+desc.ServiceName+"/"+m.MethodName, v2)
		out.Methods = append(out.Methods, m)
	}
	return out
}

// receive returns the bytes of a message, which are unknown fields to a message that has none: only its owner
// knows what to look at.
func receive(st grpc.ServerStream) ([]byte, error) {
	m := &emptypb.Empty{}
	if err := st.RecvMsg(m); err != nil {
		return nil, err
	}
	return m.ProtoReflect().GetUnknown(), nil
}

// pace is how often messages of a stream are read: a checker that floods slows itself only. What a slow line or machine
// has held up may come at once.
type pace struct {
	every time.Duration
	next  time.Time
}

const (
	leastPause = 2 * time.Millisecond
	mostPause  = 100 * time.Millisecond
	burst      = 20
)

func newPace(interval time.Duration) *pace {
	return &pace{every: min(max(interval/10, leastPause), mostPause)}
}

// pause is how long after a message that has been read now the next one is.
func (p *pace) pause(now time.Time) time.Duration {
	if least := now.Add(-burst * p.every); p.next.Before(least) {
		p.next = least
	}
	p.next = p.next.Add(p.every)
	return max(p.next.Sub(now), leastPause)
}

// serve serves one stream.
func (s *Server) serve(st grpc.ServerStream, v2 bool) error {
	ctx, cancel := context.WithCancel(st.Context())
	defer cancel()
	in, ended := make(chan []byte), make(chan error, 1)
	go func() { ended <- read(ctx, st, in, newPace(s.cfg.ReportInterval)) }()
	h, grant, err := s.greet(ctx, in, ended, v2)
	if err != nil {
		return quiet(err)
	}
	defer grant.Release()
	var refused error
	if err := s.do(ctx, func(e *engine, now time.Time) { refused = e.join(now, h) }); err != nil || refused != nil {
		return cmp.Or(refused, quiet(err))
	}
	written := make(chan error, 1)
	go func() { written <- s.write(ctx, st, h) }()
	how, err := s.hear(ctx, h, grant, streamEvents{in, ended, written})
	// The stream's own context has ended, and the engine may have.
	_ = s.do(context.WithoutCancel(ctx), func(e *engine, now time.Time) { e.leave(now, h, how) })
	return quiet(err)
}

// read hands on what a checker says, one message at a time, until the stream ends.
func read(ctx context.Context, st grpc.ServerStream, in chan<- []byte, p *pace) error {
	for {
		raw, err := receive(st)
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case in <- raw:
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(p.pause(time.Now())):
		}
	}
}

// greet waits for the first message, and admits who it is.
func (s *Server) greet(ctx context.Context, in <-chan []byte, ended <-chan error, v2 bool) (*stream, *xds.Grant, error) {
	late := time.NewTimer(s.cfg.FirstMessageWithin)
	defer late.Stop()
	var raw []byte
	select {
	case raw = <-in:
	case err := <-ended:
		return nil, nil, err
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	case <-s.done:
		return nil, nil, errEnding
	case <-late.C:
		return nil, nil, status.Errorf(codes.DeadlineExceeded, "no message within %s", s.cfg.FirstMessageWithin)
	}
	hello, ok, err := hds.DecodeHello(raw)
	if err != nil || !ok {
		return nil, nil, status.Error(codes.InvalidArgument, "the first message must be a HealthCheckRequest, with the node and what it can do")
	}
	return s.admit(ctx, hello, v2)
}

// streamEvents are what ends the serving of a stream, and what a checker says.
type streamEvents struct {
	in      <-chan []byte
	ended   <-chan error
	written <-chan error
}

// hear takes in reports until the stream ends, and returns how it did. An Envoy that dies leaves a connection that
// broke.
func (s *Server) hear(ctx context.Context, h *stream, grant *xds.Grant, ev streamEvents) (hds.Departure, error) {
	for {
		select {
		case raw := <-ev.in:
			var failed error
			h.speaks.Store(true)
			if err := s.do(ctx, func(e *engine, now time.Time) { failed = e.hear(now, h, raw) }); err != nil {
				return hds.Left, err
			}
			if failed != nil {
				return hds.Orderly, status.Error(codes.InvalidArgument, "the report cannot be read: "+failed.Error())
			}
		case err := <-ev.ended:
			if errors.Is(err, io.EOF) {
				return hds.Orderly, nil
			}
			return hds.Left, err
		case err := <-ev.written:
			return hds.Left, err
		case <-grant.Revoked:
			return hds.Orderly, grant.Err()
		case <-ctx.Done():
			return hds.Left, ctx.Err()
		case <-s.done:
			return hds.Orderly, errEnding
		}
	}
}

// write sends a stream what it is to do, whenever that changes: the latest when it gets to write.
func (s *Server) write(ctx context.Context, st grpc.ServerStream, h *stream) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-h.bell:
		}
		var m *healthv3.HealthCheckSpecifier
		if err := s.do(ctx, func(e *engine, now time.Time) { m = e.write(now, h) }); err != nil {
			return err
		}
		if m == nil {
			continue
		}
		if err := st.SendMsg(m); err != nil {
			return err
		}
		if err := s.do(ctx, func(_ *engine, now time.Time) { h.handed(now) }); err != nil {
			return err
		}
	}
}

func addressOf(ctx context.Context) net.Addr {
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		return p.Addr
	}
	return &net.TCPAddr{}
}
