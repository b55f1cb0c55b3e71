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

func (t transport) recv() (req *session.Request, err error) {
	if t.form == session.Delta {
		m := &discoveryv3.DeltaDiscoveryRequest{}
		err, req = t.RecvMsg(m), session.FromDelta(m)
	} else {
		m := &discoveryv3.DiscoveryRequest{}
		err, req = t.RecvMsg(m), session.FromSotW(m)
	}
	if err != nil {
		return nil, err
	}
	if req.TypeURL == "" && t.only != nil {
		req.TypeURL = t.only.URL
	}
	return req, nil
}
