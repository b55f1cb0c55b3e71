package xds

import (
	"context"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Questions says who may ask what all clients are served. Any other may ask what it is served itself,
// if it would be admitted as that client.
type Questions struct {
	// Operator knows the operator's token; nil for no such token.
	Operator Operator
	// Certificates has whoever shows a certificate that names no service ask about all: it may read
	// everything.
	Certificates bool
	// Everyone has everyone ask about all.
	Everyone bool
}

// Operator knows who runs the control plane. Its method is called concurrently.
type Operator interface {
	// Is reports whether a secret is the operator's token; the error says why that is not known.
	Is(secret string) (bool, error)
}

// asker is whoever asks what clients are served.
type asker struct {
	// all says that it may ask about all clients; else it is about those of this ID and service, which are
	// read with the rights of this reader where they are limited.
	all                 bool
	id, service, reader string

	grant *Grant
}

// sees reports whether the client of a stream may be told of.
func (a *asker) sees(st *stream) bool {
	if a.all {
		return true
	}
	return st.client.ID == a.id && st.client.Service == a.service && (a.reader == "" || st.client.Reader == a.reader)
}

// bearerOf returns the token of the header authorization; ok is false without that header.
func bearerOf(ctx context.Context) (secret string, ok bool) {
	sent := metadata.ValueFromIncomingContext(ctx, "authorization")
	if len(sent) == 0 {
		return "", false
	}
	scheme, secret, _ := strings.Cut(sent[0], " ")
	if !strings.EqualFold(scheme, "bearer") || len(secret) > maxToken {
		return "", true
	}
	return strings.TrimSpace(secret), true
}

// admitAsker finds out who asks. The caller releases the grant.
func (s *Server) admitAsker(ctx context.Context, node *corev3.Node) (*asker, error) {
	everything := &asker{all: true, grant: lasting(false)}
	if secret, ok := bearerOf(ctx); ok {
		return everything, s.checkOperator(ctx, secret)
	}
	if s.cfg.Questions.Everyone || s.cfg.Questions.Certificates && showsReader(ctx) {
		return everything, nil
	}
	if node.GetId() == "" {
		return nil, status.Error(codes.Unauthenticated, "who asks is not known: send the operator's token, as the metadata "+
			"authorization: Bearer TOKEN, or ask as a client about itself, with its node and what it proves itself by")
	}
	id, err := identify(node, addressOf(ctx))
	if err != nil {
		return nil, err
	}
	grant, err := s.cfg.Guard.Admit(ctx, id.client)
	if err != nil {
		return nil, err
	}
	return &asker{id: id.client.ID, service: id.client.Service, reader: grant.Reader, grant: grant}, nil
}

// checkOperator returns why a secret does not make an operator.
func (s *Server) checkOperator(ctx context.Context, secret string) error {
	operator := s.cfg.Questions.Operator
	if operator == nil {
		return status.Error(codes.Unauthenticated, "the control plane has no operator's token: it is started with one by --admin-token-file")
	}
	is, err := operator.Is(secret)
	switch {
	case err != nil:
		s.cfg.Logger.Error("who asks cannot be told", "error", err)
		return status.Error(codes.Unavailable, "the operator's token cannot be checked; the log of the control plane says why")
	case !is:
		s.cfg.Logger.Debug("an operator was refused", "address", addressOf(ctx).String())
		return status.Error(codes.Unauthenticated, "this is not the operator's token")
	}
	return nil
}

// showsReader reports whether the connection has verified a certificate that names no service.
func showsReader(ctx context.Context) bool {
	leaf := certificateOf(ctx)
	if leaf == nil {
		return false
	}
	for _, uri := range leaf.URIs {
		if namesService(uri) {
			return false
		}
	}
	return true
}
