package consulwatch

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/hashicorp/consul/proto-public/pbconnectca"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/internal/identity"
)

// Signer has certificates signed at Consul's public gRPC port. It implements [identity.Signer], with the
// token of the source that it is of. Create one with [Source.Signer].
type Signer struct {
	access  *access
	network string // tcp or unix
	address string
	tls     bool
	// caFile and caPath are the authority of the gRPC port, when it is not that of the HTTP API.
	caFile, caPath string

	mu     sync.Mutex
	conn   *grpc.ClientConn // nil until it is needed, and after it hung
	failed error            // why there is no connection
}

// Signer returns a signer at the gRPC port at an address as Consul's command line takes it: HOST:PORT, with
// https:// before it for TLS, or unix:///PATH. Certificates are those for Consul's HTTP API, but for
// CONSUL_GRPC_CACERT and CONSUL_GRPC_CAPATH. It connects to nothing.
func (s *Source) Signer(address string) (*Signer, error) {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		scheme, rest = "", address
	}
	signer := &Signer{
		access: s.access, network: "tcp", address: rest,
		caFile: os.Getenv(api.GRPCCAFileEnvName), caPath: os.Getenv(api.GRPCCAPathEnvName),
	}
	switch {
	case scheme == "unix" && rest != "":
		signer.network = "unix"
		return signer, nil
	case scheme != "" && scheme != "http" && scheme != "https" || !isHostPort(rest):
		return nil, fmt.Errorf("the address of Consul's gRPC port is %q: want HOST:PORT, such as 127.0.0.1:8502, https://HOST:PORT, or unix:///PATH", address)
	}
	signer.tls = scheme == "https" || scheme == "" && signer.caFile+signer.caPath != ""
	if signer.tls {
		if _, err := signer.secure(); err != nil {
			return nil, fmt.Errorf("the certificates for Consul's gRPC port: %w", err)
		}
	}
	return signer, nil
}

func isHostPort(text string) bool {
	host, port, err := net.SplitHostPort(text)
	return err == nil && host != "" && port != ""
}

// Close closes the connection.
func (s *Signer) Close() { s.reset(nil) }

// Sign implements [identity.Signer].
func (s *Signer) Sign(ctx context.Context, csr string) (string, error) {
	conn, err := s.connection()
	if err != nil {
		return "", err
	}
	ctx = metadata.AppendToOutgoingContext(ctx, identity.MetadataToken, s.access.secret())
	answer, err := pbconnectca.NewConnectCAServiceClient(conn).Sign(ctx, &pbconnectca.SignRequest{Csr: csr})
	if err != nil {
		return "", s.explain(conn, err)
	}
	return answer.GetCertPem(), nil
}

var signBackoff = backoff.Config{BaseDelay: 250 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: connectMax}

// connection returns the connection on which all orders are.
func (s *Signer) connection() (*grpc.ClientConn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		return s.conn, nil
	}
	conn, err := grpc.NewClient("passthrough:///"+s.address,
		grpc.WithTransportCredentials(insecure.NewCredentials()), // the dialer does what TLS there is
		grpc.WithContextDialer(s.dial),
		grpc.WithAuthority("consul"),
		// Else an order would be refused without an attempt for up to 2 min after Consul is back.
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: signBackoff, MinConnectTimeout: dialTime}),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
	)
	if err != nil {
		return nil, fmt.Errorf("consul's gRPC port at %s: %w", s.address, err)
	}
	s.conn = conn
	return conn, nil
}

// reset has the next order make another connection; nil means that whichever there is goes.
func (s *Signer) reset(conn *grpc.ClientConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil && (conn == nil || conn == s.conn) {
		s.conn.Close()
		s.conn = nil
	}
}

// dial connects, and remembers why it could not: gRPC's own words differ at each attempt.
func (s *Signer) dial(ctx context.Context, _ string) (net.Conn, error) {
	conn, err := s.open(ctx)
	s.note(err)
	if err != nil {
		return nil, err
	}
	// What is closed was most often in use, and is no reason.
	return &watchedConn{Conn: conn, note: func(err error) {
		if !isClosed(err) {
			s.note(err)
		}
	}}, nil
}

func (s *Signer) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = err
}

func (s *Signer) open(ctx context.Context) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: dialTime}).DialContext(ctx, s.network, s.address)
	if err != nil || !s.tls {
		return conn, err
	}
	secure, err := s.secure() // read anew: certificates are replaced while we run
	if err != nil {
		conn.Close()
		return nil, err
	}
	over := tls.Client(conn, secure)
	if err := over.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return over, nil
}

// secure returns the TLS of the connection.
func (s *Signer) secure() (*tls.Config, error) {
	cfg := s.access.certificates()
	if s.caFile+s.caPath != "" {
		cfg.CAFile, cfg.CAPath, cfg.CAPem = s.caFile, s.caPath, nil
	}
	cfg.Address = cmp.Or(cfg.Address, s.address)
	secure, err := api.SetupTLSConfig(&cfg)
	if err != nil {
		return nil, err
	}
	secure.MinVersion, secure.NextProtos = tls.VersionTLS12, []string{"h2"}
	return secure, nil
}

// explain says what an error means for orders, and what to do.
func (s *Signer) explain(conn *grpc.ClientConn, err error) error {
	said := status.Convert(err)
	text := strings.TrimSpace(said.Message())
	where := "Consul's gRPC port at " + s.address
	switch code := said.Code(); {
	case code == codes.ResourceExhausted:
		return tooMany(text)
	case code == codes.PermissionDenied, code == codes.Unauthenticated:
		return forbidden(text)
	case code == codes.Unimplemented:
		return &identity.Unreachable{Reason: where + " signs no certificates: is it the one of Consul (8502 or 8503 by default)?"}
	case code == codes.DeadlineExceeded, code == codes.Canceled:
		s.reset(conn) // a connection of which nothing is left would fail all orders until TCP sees it
		return &identity.Unreachable{Reason: where + " does not answer in time"}
	case code == codes.Unavailable:
		return &identity.Unreachable{Reason: where + " " + s.unavailable(text)}
	case strings.Contains(text, "leader"):
		return &identity.Unreachable{Reason: fmt.Sprintf("Consul signs no certificate now: %s", text)}
	}
	return fmt.Errorf("consul signs no certificate: %s (%s)", text, said.Code())
}

// unavailable says why there is no answer.
func (s *Signer) unavailable(text string) string {
	s.mu.Lock()
	failed := s.failed
	s.mu.Unlock()
	switch {
	case failed != nil:
		return fmt.Sprintf("cannot be reached (%s)", rootCause(failed))
	case strings.HasPrefix(text, "connection error:"), strings.HasPrefix(text, "error reading"):
		return "ends connections: is it the gRPC port (8502 by default), and if it speaks TLS, is there https:// before the address?"
	}
	return fmt.Sprintf("is not available (%s)", text)
}
