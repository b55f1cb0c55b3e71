package xds

import (
	"context"
	"net"

	"google.golang.org/grpc"

	"github.com/catenary-mesh/catenary/xds/session"
)

// call is where a client comes from, and what it speaks.
type call struct {
	ctx  context.Context
	form session.Form
	only *session.Type // nil on an aggregated stream
}

func (c call) peer() net.Addr { return addressOf(c.ctx) }

// transport is a stream of either form, of the aggregated service or of one type's own.
type transport struct {
	call
	grpc.ServerStream
}

func (t transport) recv(first bool) (*session.Request, error) {
	m := request{form: t.form, first: first}
	if err := t.RecvMsg(&m); err != nil {
		return nil, err
	}
	if m.TypeURL == "" && t.only != nil {
		m.TypeURL = t.only.URL
	}
	return m.Request, nil
}
