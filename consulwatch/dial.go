package consulwatch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// The first bytes on a server's RPC port say what follows.
const (
	byteTLS  = 0x03
	byteGRPC = 0x08
)

// dialTime is what a server gets to accept a connection and to speak gRPC.
const dialTime = 3 * time.Second

// maxEvent bounds an event: a batch holds every instance of a service on a node, with its checks.
const maxEvent = 64 << 20

// dial connects to the RPC port of a server and returns when it speaks gRPC there. The configuration is
// nil for a connection without TLS.
func dial(ctx context.Context, server string, secure *tls.Config) (*grpc.ClientConn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	d := &dialing{server: server, secure: secure}
	conn, err := grpc.NewClient("passthrough:///"+server,
		grpc.WithTransportCredentials(insecure.NewCredentials()), // the dialer does what TLS there is
		grpc.WithContextDialer(d.dial),
		grpc.WithConnectParams(grpc.ConnectParams{
			// One attempt is made on this connection: whoever wants another goes to another server.
			Backoff: backoff.Config{BaseDelay: time.Hour, MaxDelay: time.Hour}, MinConnectTimeout: dialTime,
		}),
		// Consul's servers end a connection that asks more often than every 15 s. One that hangs is left
		// after both of these.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 5 * time.Second}),
		grpc.WithIdleTimeout(0),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxEvent)),
	)
	if err != nil {
		return nil, fmt.Errorf("the server %s: %w", server, err)
	}
	conn.Connect()
	for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
		if state == connectivity.TransientFailure || !conn.WaitForStateChange(ctx, state) {
			conn.Close()
			return nil, d.reason(ctx)
		}
	}
	return conn, nil
}

// dialing is one attempt to connect, and why it failed.
type dialing struct {
	server string
	secure *tls.Config

	mu     sync.Mutex
	failed error
}

func (d *dialing) dial(ctx context.Context, _ string) (net.Conn, error) {
	conn, err := d.open(ctx)
	if err != nil {
		d.note(err)
		return nil, err
	}
	return &watchedConn{Conn: conn, note: d.note}, nil
}

func (d *dialing) open(ctx context.Context) (net.Conn, error) {
	conn, err := (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext(ctx, "tcp", d.server)
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline) // a connection that cannot have one fails soon anyway
	}
	secured, err := d.greet(ctx, conn)
	if err != nil {
		conn.Close()
		return nil, err
	}
	_ = conn.SetDeadline(time.Time{})
	return secured, nil
}

// greet says what is spoken.
func (d *dialing) greet(ctx context.Context, conn net.Conn) (net.Conn, error) {
	if d.secure == nil {
		_, err := conn.Write([]byte{byteGRPC})
		return conn, err
	}
	if _, err := conn.Write([]byte{byteTLS}); err != nil {
		return nil, err
	}
	over := tls.Client(conn, d.secure)
	if err := over.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	_, err := over.Write([]byte{byteGRPC})
	return over, err
}

// note keeps the first error, which is the cause of those that follow.
func (d *dialing) note(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failed == nil {
		d.failed = err
	}
}

// reason says why there is no connection, and what to do.
func (d *dialing) reason(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	where := "the RPC port of the server " + d.server
	switch {
	case d.failed == nil || errors.Is(d.failed, os.ErrDeadlineExceeded) || errors.Is(d.failed, context.DeadlineExceeded):
		if ctx.Err() == nil {
			return fmt.Errorf("%s does not speak gRPC", where)
		}
		return fmt.Errorf("%s does not answer: is it the RPC port (8300 by default)?", where)
	case d.secure == nil && isClosed(d.failed):
		return fmt.Errorf("%s closes connections without TLS: if it verifies who connects, give it a certificate "+
			"by CONSUL_CACERT, CONSUL_CLIENT_CERT and CONSUL_CLIENT_KEY", where)
	case isClosed(d.failed):
		return fmt.Errorf("%s closes connections with TLS: %s", where, askTLS)
	case isAlert(d.failed):
		return fmt.Errorf("%s ends TLS (%w): %s", where, d.failed, askTLS)
	}
	return fmt.Errorf("%s: %s", where, rootCause(d.failed))
}

// askTLS is what to look for when a server does not take TLS as it is.
const askTLS = "does it have TLS for RPC, and does it accept who connects, by CONSUL_CLIENT_CERT and CONSUL_CLIENT_KEY?"

// isAlert reports whether the other side has said in TLS what it does not accept.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}
