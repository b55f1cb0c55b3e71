package xds

import (
	"context"
	"net"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	"github.com/catenary-mesh/catenary/xds/session"
)

// sotw is a state-of-the-world stream.
type sotw struct {
	discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer
}

func (t sotw) context() context.Context { return t.Context() }
func (t sotw) form() session.Form       { return session.SotW }
func (t sotw) peer() net.Addr           { return peerOf(t.Context()) }

func (t sotw) recv() (*session.Request, error) {
	req, err := t.Recv()
	if err != nil {
		return nil, err
	}
	return session.FromSotW(req), nil
}

func (t sotw) send(r *session.Response) (int, error) {
	m := r.SotW()
	return proto.Size(m), t.Send(m)
}

// delta is an incremental stream.
type delta struct {
	discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer
}

func (t delta) context() context.Context { return t.Context() }
func (t delta) form() session.Form       { return session.Delta }
func (t delta) peer() net.Addr           { return peerOf(t.Context()) }

func (t delta) recv() (*session.Request, error) {
	req, err := t.Recv()
	if err != nil {
		return nil, err
	}
	return session.FromDelta(req), nil
}

func (t delta) send(r *session.Response) (int, error) {
	m := r.Delta()
	return proto.Size(m), t.Send(m)
}

func peerOf(ctx context.Context) net.Addr {
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		return p.Addr
	}
	return &net.TCPAddr{}
}
