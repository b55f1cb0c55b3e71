package testenv

import (
	"fmt"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	credsxds "google.golang.org/grpc/credentials/xds"
	grpcxds "google.golang.org/grpc/xds"
)

// XDSServer is a real gRPC server that gets its listener by xDS.
type XDSServer struct {
	*GRPCBackend

	mu   sync.Mutex
	mode connectivity.ServingMode
	err  error
}

// StartXDSServer starts a gRPC server with a bootstrap. One that is secure takes its credentials by xDS too; another
// listens in plaintext. It ends with the test.
func StartXDSServer(t testing.TB, bootstrap []byte, version string, secure bool) *XDSServer {
	t.Helper()
	creds := insecure.NewCredentials()
	if secure {
		var err error
		if creds, err = credsxds.NewServerCredentials(credsxds.ServerOptions{FallbackCreds: creds}); err != nil {
			t.Fatal(err)
		}
	}
	lis := listen(t)
	s := &XDSServer{GRPCBackend: &GRPCBackend{Version: version, Port: lis.Addr().(*net.TCPAddr).Port}}
	server, err := grpcxds.NewGRPCServer(
		grpc.Creds(creds), grpc.UnknownServiceHandler(s.answer), grpcxds.BootstrapContentsForTesting(bootstrap),
		grpcxds.ServingModeCallback(func(_ net.Addr, args grpcxds.ServingModeChangeArgs) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.mode, s.err = args.Mode, args.Err
		}),
	)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(lis) }()
	s.stop = sync.OnceFunc(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Errorf("testenv: xDS server %s: %v", version, err)
		}
	})
	t.Cleanup(s.stop)
	return s
}

// Serving returns nil when the server serves, and why it does not otherwise.
func (s *XDSServer) Serving() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mode != connectivity.ServingModeServing {
		return fmt.Errorf("the server at port %d does not serve: %w", s.Port, s.err)
	}
	return nil
}
