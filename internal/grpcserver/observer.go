package grpcserver

import (
	"context"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// observer is told by gRPC what becomes of connections and calls.
type observer struct{ *Server }

var _ stats.Handler = observer{}

type connectionKey struct{}

// connectionOf returns the connection that a call came on.
func connectionOf(ctx context.Context) *conn {
	c, _ := ctx.Value(connectionKey{}).(*conn) // always there: TagConn put it
	return c
}

// TagConn implements [stats.Handler]. It is called when the client has begun to speak HTTP/2.
func (o observer) TagConn(ctx context.Context, info *stats.ConnTagInfo) context.Context {
	var c *conn
	if local, ok := info.LocalAddr.(localAddr); ok {
		c = local.conn
	} else {
		c = o.newConn(nil) // of a transport that hides the connection: its streams count all the same
	}
	c.begin()
	c.grow(o.cfg.MaxConnectionAge)
	return context.WithValue(ctx, connectionKey{}, c)
}

// HandleConn implements [stats.Handler].
func (observer) HandleConn(ctx context.Context, what stats.ConnStats) {
	if _, ok := what.(*stats.ConnEnd); ok {
		connectionOf(ctx).die()
	}
}

// TagRPC implements [stats.Handler].
func (observer) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements [stats.Handler]. That a message is too large shows nowhere else: gRPC answers it
// itself, with an error that has no type.
func (o observer) HandleRPC(_ context.Context, what stats.RPCStats) {
	end, ok := what.(*stats.End)
	if !ok || end.Error == nil {
		return
	}
	st := status.Convert(end.Error)
	if st.Code() == codes.ResourceExhausted && strings.HasPrefix(st.Message(), "grpc: received message ") {
		o.refused(ReasonMessage, "a request is refused: it is too large", "error", st.Message(), "limit", maxMessage)
	}
}
