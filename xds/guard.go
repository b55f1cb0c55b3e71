package xds

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	tokens "github.com/catenary-mesh/catenary/internal/identity"
	"github.com/catenary-mesh/catenary/snapshot"
)

// Guard decides which clients are served.
type Guard interface {
	// Admit is called once for each stream, when its first request has said who the client is. The
	// context is the stream's. The error is a gRPC status, and says what the client lacks and nothing of
	// others.
	Admit(ctx context.Context, c snapshot.Client) (*Grant, error)
}

// Grant is the admission of one stream.
type Grant struct {
	// Reader is under which name the client's rights to read services are facts; empty when it may read
	// everything.
	Reader string
	// Secrets reports whether the client has proved to be the service that it speaks for, so that it may
	// have the certificates and keys of that service.
	Secrets bool
	// Revoked is closed when the right to be served was taken away; nil when it never is. Err then
	// returns the status with which the stream is to end, and nil before.
	Revoked <-chan struct{}
	Err     func() error
	// Release says that the stream is gone. It is called once.
	Release func()
}

// GuardConfig says how clients may prove who they are: in each of the ways that are set. A client needs
// to pass by one.
type GuardConfig struct {
	// Tokens admits by a token of Consul; nil for not at all.
	Tokens TokenRights
	// Certificates admits by a certificate that the connection has verified.
	Certificates bool
	// Datacenter and TrustDomain are those in the names of certificates.
	Datacenter, TrustDomain string
	// Logger gets the refusals; nil means no log.
	Logger hclog.Logger
}

// TokenRights says what a token may; [tokens.Verdicts] implements it.
type TokenRights interface {
	Admit(context.Context, tokens.Request) (*tokens.Grant, error)
}

// NewGuard returns a guard. One without any way believes what clients say of themselves, and lets none
// have secrets.
func NewGuard(cfg GuardConfig) Guard {
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	if cfg.Tokens == nil && !cfg.Certificates {
		return believer{}
	}
	return &guard{cfg: cfg, said: map[refusal]struct{}{}}
}

// believer admits everyone, and trusts nobody with secrets.
type believer struct{}

// Admit implements [Guard].
func (believer) Admit(context.Context, snapshot.Client) (*Grant, error) { return lasting(false), nil }

// lasting is a grant to read everything that nothing takes away.
func lasting(secrets bool) *Grant {
	return &Grant{Secrets: secrets, Err: func() error { return nil }, Release: func() {}}
}

// guard admits whoever passes by one of its ways.
type guard struct {
	cfg GuardConfig

	mu    sync.Mutex // guards what was logged since when
	since time.Time
	said  map[refusal]struct{}
}

// Admit implements [Guard].
func (g *guard) Admit(ctx context.Context, c snapshot.Client) (*Grant, error) {
	grant, err := g.admit(ctx, c)
	if err != nil {
		st := statusOf(err)
		g.refused(c, addressOf(ctx), st)
		return nil, st.Err()
	}
	return g.watched(grant, c, addressOf(ctx)), nil
}

// admit tries the ways in turn. A certificate that names no service admits only a reader, so whoever has
// a token as well may do better by that.
func (g *guard) admit(ctx context.Context, c snapshot.Client) (*Grant, error) {
	token := tokenOf(ctx)
	var reader *Grant
	var failed error
	if g.cfg.Certificates {
		grant, err := g.byCertificate(ctx, c)
		if err == nil && (grant.Secrets || token.IsZero() || g.cfg.Tokens == nil) {
			return grant, nil
		}
		reader, failed = grant, err
	}
	if g.cfg.Tokens != nil {
		grant, err := g.byToken(ctx, c, token)
		if err == nil {
			return grant, nil
		}
		failed = worse(failed, err)
	}
	if reader != nil {
		return reader, nil
	}
	return nil, failed
}

// worse is the error that tells a client more of what it should do, of two ways that it did not pass.
func worse(a, b error) error {
	rank := map[codes.Code]int{codes.Unauthenticated: 1, codes.Unavailable: 2, codes.PermissionDenied: 3}
	if a == nil {
		return b
	}
	one, two := statusOf(a), statusOf(b)
	switch {
	case rank[one.Code()] > rank[two.Code()]:
		return a
	case one.Code() == codes.Unauthenticated && two.Code() == codes.Unauthenticated:
		return status.Error(codes.Unauthenticated, one.Message()+"; or: "+two.Message())
	}
	return b
}

// statusOf makes a refusal a status.
func statusOf(err error) *status.Status {
	r, ok := err.(*tokens.Refusal) //nolint:errorlint // its owner returns it unwrapped
	if !ok {
		return status.Convert(err)
	}
	switch r.Kind {
	case tokens.Unauthenticated:
		return status.New(codes.Unauthenticated, clip(r.Text))
	case tokens.Denied:
		return status.New(codes.PermissionDenied, clip(r.Text))
	case tokens.Unavailable:
	}
	return status.New(codes.Unavailable, clip(r.Text))
}

// refusal is what a log line about a refusal says.
type refusal struct{ proxy, address, reason string }

const (
	// sayAgain is how long a refusal that repeats is not logged again: a proxy tries for ever.
	sayAgain = time.Minute
	// mostRefusals is how many refusals are logged in that time: a client can make up any name.
	mostRefusals = 100
)

// refused logs a refusal, unless it was logged lately.
func (g *guard) refused(c snapshot.Client, from net.Addr, st *status.Status) {
	line := refusal{proxy: c.ID, address: hostOf(from), reason: st.Message()}
	g.mu.Lock()
	if now := time.Now(); now.Sub(g.since) > sayAgain {
		g.since = now
		clear(g.said)
	}
	_, known := g.said[line]
	full := len(g.said) >= mostRefusals
	if !known && !full {
		g.said[line] = struct{}{}
	}
	last := !known && !full && len(g.said) == mostRefusals
	g.mu.Unlock()
	if known || full {
		return
	}
	g.cfg.Logger.Warn("a client was refused", "proxy", c.ID, "service", c.Service, "address", from.String(),
		"status", st.Code().String(), "reason", st.Message())
	if last {
		g.cfg.Logger.Warn("many clients were refused: no more of them are logged for a while", "for", sayAgain.String())
	}
}

// watched returns the grant such that the log tells when it was taken away.
func (g *guard) watched(grant *Grant, c snapshot.Client, from net.Addr) *Grant {
	out := *grant
	out.Release = func() {
		if err := grant.Err(); err != nil {
			g.cfg.Logger.Warn("a client is not served any longer", "proxy", c.ID, "service", c.Service,
				"address", from.String(), "status", status.Code(err).String(), "reason", status.Convert(err).Message())
		}
		grant.Release()
	}
	return &out
}

// addressOf is where a stream comes from.
func addressOf(ctx context.Context) net.Addr {
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		return p.Addr
	}
	return &net.TCPAddr{}
}

func hostOf(a net.Addr) string {
	if host, _, err := net.SplitHostPort(a.String()); err == nil {
		return host
	}
	return a.String()
}
