package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"reflect"
	"slices"
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

// holder is who holds leases, as far as a report shows: it names nobody.
type holder struct {
	host  string
	proof [sha256.Size]byte
}

// lease is that of a stream which is none, but calls of a checker that fetches.
type lease struct {
	holder  holder
	expires time.Time
	heard   time.Time                      // when its last call was taken in
	last    *healthv3.HealthCheckSpecifier // what it was given last
}

func holderOf(ctx context.Context) holder {
	return holder{hostOf(addressOf(ctx).String()), sha256.Sum256([]byte(tokenOf(ctx) + "\x00" + uriOf(ctx)))}
}

// maxLeases is how many there are, of however many checkers: a lease costs whoever takes it one call.
const maxLeases = 10_000

// Fetch takes in one message of a checker that fetches, and returns what it is to do. A first message takes a
// lease, and each later one renews it; a report is that of the lease taken from the same address by the same proof.
func (s *Server) Fetch(ctx context.Context, raw []byte, v2 bool) (m *healthv3.HealthCheckSpecifier, err error) {
	hello, first, err := hds.DecodeHello(raw)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, "the message cannot be read: "+err.Error())
	}
	if !first {
		return s.report(ctx, raw)
	}
	h, grant, err := s.admit(ctx, hello, v2)
	if err != nil {
		return nil, err
	}
	defer grant.Release()
	h.lease = &lease{holder: holderOf(ctx)}
	h.address = h.lease.holder.host
	failed := s.do(ctx, func(e *engine, now time.Time) { m, err = e.renew(now, h) })
	return m, cmp.Or(failed, err)
}

// report takes in the report of a lease. Its holder must still be admitted.
func (s *Server) report(ctx context.Context, raw []byte) (m *healthv3.HealthCheckSpecifier, err error) {
	var held []*stream
	if failed := s.do(ctx, func(e *engine, _ time.Time) { held = slices.Clone(e.leases[holderOf(ctx)]) }); failed != nil {
		return nil, failed
	}
	if len(held) != 1 {
		return nil, status.Errorf(codes.FailedPrecondition, "%d checkers that fetch have a lease from this address, and a report names none: send a HealthCheckRequest first, or use a stream", len(held))
	}
	grant, err := s.cfg.Guard.Admit(ctx, held[0].client)
	if err != nil {
		return nil, err
	}
	defer grant.Release()
	failed := s.do(ctx, func(e *engine, now time.Time) { m, err = e.reported(now, held[0], raw) })
	return m, cmp.Or(failed, err)
}

// reported takes in the report of a lease, and returns what its holder is to do.
func (e *engine) reported(now time.Time, h *stream, raw []byte) (*healthv3.HealthCheckSpecifier, error) {
	if !slices.Contains(e.leases[h.lease.holder], h) {
		return nil, status.Error(codes.FailedPrecondition, "the lease has ended: send a HealthCheckRequest")
	}
	if !e.extend(now, h) {
		return h.lease.last, nil
	}
	if err := e.hear(now, h, raw); err != nil {
		return nil, status.Error(codes.InvalidArgument, "the report cannot be read: "+err.Error())
	}
	return e.fetched(now, h), nil
}

// extend has a lease go on, and reports whether its holder is heard: ten calls to a report's interval are.
func (e *engine) extend(now time.Time, h *stream) bool {
	h.lease.expires = now.Add(leaseIntervals * e.cfg.ReportInterval)
	if now.Sub(h.lease.heard) < e.cfg.ReportInterval/10 {
		return false
	}
	h.lease.heard = now
	return true
}

// renew takes or renews a lease, and returns what its holder is to do.
func (e *engine) renew(now time.Time, h *stream) (*healthv3.HealthCheckSpecifier, error) {
	var held *stream
	for _, s := range e.leases[h.lease.holder] {
		if s.id == h.id && s.hello.NodeID == h.hello.NodeID {
			held = s
		}
	}
	switch {
	case held != nil && !e.extend(now, held):
		return held.lease.last, nil
	case held != nil && reflect.DeepEqual(held.hello, h.hello):
	default:
		if held != nil { // it is another Envoy now, or elsewhere
			e.leave(now, held, hds.Orderly)
		}
		if e.leased >= maxLeases {
			return nil, status.Errorf(codes.ResourceExhausted, "%d checkers fetch, and no more are taken: use a stream", maxLeases)
		}
		if err := e.join(now, h); err != nil {
			return nil, err
		}
		held = h
		e.leases[h.lease.holder] = append(e.leases[h.lease.holder], h)
		e.leased++
		e.extend(now, h)
	}
	if c := e.checkers[held.id]; c != nil && c.active == held {
		e.tell(now, c)
	}
	return e.fetched(now, held), nil
}

// fetched is what the holder of a lease is to do now: also when it was told so before.
func (e *engine) fetched(now time.Time, h *stream) *healthv3.HealthCheckSpecifier {
	if m := e.take(now, h); m != nil {
		h.lease.last = m
	}
	return h.lease.last
}

// unlease ends the lease of a stream that leaves, if it has one.
func (e *engine) unlease(s *stream) {
	if s.lease == nil {
		return
	}
	left := slices.DeleteFunc(e.leases[s.lease.holder], func(x *stream) bool { return x == s })
	e.leased--
	if e.leases[s.lease.holder] = left; len(left) == 0 {
		delete(e.leases, s.lease.holder)
	}
}
