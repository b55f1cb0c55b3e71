package xds_test

import (
	"context"
	"strings"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/catenary-mesh/catenary/xds"
	"github.com/catenary-mesh/catenary/xds/session"
)

// desk takes the place of a gRPC server: its streams have no connection. It holds the handlers of the
// aggregated service.
type desk map[session.Form]grpc.StreamHandler

func deskOf(s *xds.Server) desk {
	d := desk{}
	s.Register(d)
	return d
}

// RegisterService implements [grpc.ServiceRegistrar].
func (d desk) RegisterService(desc *grpc.ServiceDesc, _ any) {
	if desc.ServiceName != discoveryv3.AggregatedDiscoveryService_ServiceDesc.ServiceName {
		return
	}
	for _, s := range desc.Streams {
		form := session.SotW
		if strings.HasPrefix(s.StreamName, "Delta") {
			form = session.Delta
		}
		d[form] = s.Handler
	}
}

// visit is the server's side of a stream without a connection.
type visit struct {
	grpc.ServerStream // none of its other methods is called

	ctx      context.Context
	requests chan []byte // as a client would put them on the wire
	idle     func()      // is called when all requests are taken in; may be nil
	sent     func(*session.Response)
}

// open serves a visit until it ends.
func (d desk) open(form session.Form, v *visit) error { return d[form](nil, v) }

func (v *visit) Context() context.Context { return v.ctx }

func (v *visit) SendMsg(m any) error {
	v.sent(m.(*session.Response))
	return nil
}

func (v *visit) RecvMsg(m any) error {
	if v.idle != nil && len(v.requests) == 0 {
		v.idle()
	}
	select {
	case <-v.ctx.Done():
		return v.ctx.Err()
	case raw := <-v.requests:
		return xds.Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(raw)}, m)
	}
}

// bytes is the message as a client puts it on the wire.
func (m message) bytes(form session.Form) []byte {
	var detail *statuspb.Status
	if m.refuse != "" {
		detail = &statuspb.Status{Code: 3, Message: m.refuse}
	}
	var out proto.Message = &discoveryv3.DiscoveryRequest{
		Node: m.node, TypeUrl: m.url, ResponseNonce: m.nonce, VersionInfo: m.info, ResourceNames: m.names, ErrorDetail: detail,
	}
	if form == session.Delta {
		out = &discoveryv3.DeltaDiscoveryRequest{
			Node: m.node, TypeUrl: m.url, ResponseNonce: m.nonce, ErrorDetail: detail,
			ResourceNamesSubscribe: m.add, ResourceNamesUnsubscribe: m.drop, InitialResourceVersions: m.initial,
		}
	}
	raw, err := proto.Marshal(out)
	if err != nil {
		panic(err) // it is a message
	}
	return raw
}
