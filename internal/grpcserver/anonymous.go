package grpcserver

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// sendAway closes the connection of a client that was refused for not having proved who it is, when it has shown
// no certificate although it could have, and no other call of it is served. A certificate is shown when a connection
// begins and at no other time, and a Linkerd proxy connects before it has one: it would be refused for as long
// as the connection lives.
func (s *Server) sendAway(ctx context.Context, err error) {
	if s.cfg.TLS.CA == "" || status.Code(err) != codes.Unauthenticated || hasCertificate(ctx) {
		return
	}
	c := connectionOf(ctx)
	if c.Conn == nil {
		return
	}
	// gRPC says on no connection of its own choice that it ends. The client is to hear its status before.
	time.AfterFunc(s.bounds.lastWord, func() {
		if c.streams.n.Load() == 0 {
			_ = c.Close() // gRPC sees that it has ended
		}
	})
}

func hasCertificate(ctx context.Context) bool {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return false
	}
	tls, ok := p.AuthInfo.(credentials.TLSInfo)
	return ok && len(tls.State.PeerCertificates) > 0
}
