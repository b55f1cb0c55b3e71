package server

import (
	"context"
	"time"

	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/catenary-mesh/catenary/hds"
)

// leaseIntervals is how many intervals after its last call a checker that fetches has left.
const leaseIntervals = 3

// fetchMethod serves a Fetch method: one message, and the specifier as it is now.
func (s *Server) fetchMethod(name string, v2 bool) grpc.MethodHandler {
	return func(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
		m := &emptypb.Empty{}
		if err := decode(m); err != nil {
			return nil, err
		}
		fetch := func(ctx context.Context, _ any) (any, error) { return s.Fetch(ctx, m.ProtoReflect().GetUnknown(), v2) }
		if intercept == nil {
			return fetch(ctx, m)
		}
		return intercept(ctx, m, &grpc.UnaryServerInfo{Server: s, FullMethod: name}, fetch)
	}
}

// Fetch takes in one message of a checker that fetches, and returns what it is to do. A first message takes a
// lease, and each later one renews it; a report is that of the lease taken from the same address.
func (s *Server) Fetch(ctx context.Context, raw []byte, v2 bool) (*healthv3.HealthCheckSpecifier, error) {
	hello, first, err := hds.DecodeHello(raw)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, "the message cannot be read: "+err.Error())
	}
	from := hostOf(addressOf(ctx).String())
	if !first {
		return s.report(ctx, from, raw)
	}
	h, grant, err := s.admit(ctx, hello, v2)
	if err != nil {
		return nil, err
	}
	defer grant.Release()
	h.fetches, h.address = true, from
	var m *healthv3.HealthCheckSpecifier
	err = s.do(ctx, func(e *engine, now time.Time) { m = e.lease(now, h) })
	return m, err
}

// report takes in the report of a lease.
func (s *Server) report(ctx context.Context, from string, raw []byte) (m *healthv3.HealthCheckSpecifier, err error) {
	failed := s.do(ctx, func(e *engine, now time.Time) {
		held := e.leasesOf(from)
		if len(held) != 1 {
			err = status.Errorf(codes.FailedPrecondition, "%d checkers that fetch have a lease from this address, and a report names none: send a HealthCheckRequest first, or use a stream", len(held))
			return
		}
		h := held[0]
		h.expires = now.Add(leaseIntervals * e.cfg.ReportInterval)
		if err = e.hear(now, h, raw); err != nil {
			err = status.Error(codes.InvalidArgument, "the report cannot be read: "+err.Error())
			return
		}
		m = e.fetched(now, h)
	})
	if failed != nil {
		return nil, failed
	}
	return m, err
}

// lease takes or renews a lease, and returns what its holder is to do.
func (e *engine) lease(now time.Time, h *stream) *healthv3.HealthCheckSpecifier {
	held := (*stream)(nil)
	for _, s := range e.leasesOf(h.address) {
		if s.id == h.id && s.hello.NodeID == h.hello.NodeID {
			held = s
		}
	}
	if held == nil {
		held = h
		e.join(now, held)
	}
	held.expires = now.Add(leaseIntervals * e.cfg.ReportInterval)
	if c := e.checkers[held.id]; c != nil && c.active == held {
		e.tell(now, c)
	}
	return e.fetched(now, held)
}

// fetched is what the holder of a lease is to do now: also when it was told so before.
func (e *engine) fetched(now time.Time, h *stream) *healthv3.HealthCheckSpecifier {
	if m := e.take(now, h); m != nil {
		h.last = m
	}
	return h.last
}

func (e *engine) leasesOf(host string) []*stream {
	var held []*stream
	for _, c := range e.checkers {
		for _, s := range c.streams {
			if s.fetches && s.address == host {
				held = append(held, s)
			}
		}
	}
	return held
}
