package xds

import (
	"context"

	"google.golang.org/grpc/metadata"

	tokens "github.com/catenary-mesh/catenary/internal/identity"
	"github.com/catenary-mesh/catenary/snapshot"
)

// maxToken bounds the tokens that are looked at; Consul's have 36 bytes.
const maxToken = 1024

// tokenOf returns the token that a stream brings, if it brings one that can be true.
func tokenOf(ctx context.Context) tokens.Token {
	for _, secret := range metadata.ValueFromIncomingContext(ctx, tokens.MetadataToken) {
		if secret != "" && len(secret) <= maxToken {
			return tokens.NewToken(secret)
		}
	}
	return tokens.Token{}
}

// byToken admits who may write the service that it speaks for.
func (g *guard) byToken(ctx context.Context, c snapshot.Client, token tokens.Token) (*Grant, error) {
	request := tokens.Request{Token: token, Service: c.Service}
	for _, u := range c.Upstreams {
		request.Reads = append(request.Reads, u.Service)
	}
	granted, err := g.cfg.Tokens.Admit(ctx, request)
	if err != nil {
		return nil, err
	}
	return &Grant{
		Reader: granted.Reader(), Secrets: c.Service != "",
		Revoked: granted.Revoked(), Release: granted.Release,
		Err: func() error {
			if err := granted.Err(); err != nil {
				return statusOf(err).Err()
			}
			return nil
		},
	}, nil
}
