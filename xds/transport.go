package xds

import (
	"context"
	"net"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"github.com/catenary-mesh/catenary/xds/session"
)

// call is where a client comes from, and what it speaks.
type call struct {
	ctx  context.Context
	form session.Form
	only *session.Type // nil on an aggregated stream
}

func (c call) peer() net.Addr {
	if p, ok := peer.FromContext(c.ctx); ok && p.Addr != nil {
		return p.Addr
	}
	return &net.TCPAddr{}
}

// transport is a stream of either form, of the aggregated service or of one type's own.
type transport struct {
	call
	grpc.ServerStream
}

func (t transport) recv() (*session.Request, error) {
	if t.form == session.Delta {
		m := &discoveryv3.DeltaDiscoveryRequest{}
		if err := t.RecvMsg(m); err != nil {
			return nil, err
		}
		return session.FromDelta(m), nil
	}
	m := &discoveryv3.DiscoveryRequest{}
	if err := t.RecvMsg(m); err != nil {
		return nil, err
	}
	return session.FromSotW(m), nil
}
