package hds_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// web is an HTTP backend that answers with the status it is told to, after a while; 0 is never.
type web struct {
	port   int
	status atomic.Int64
	after  time.Duration
	t      *testing.T
	server *httptest.Server

	mu     sync.Mutex
	probes []probed
}

// probed is a request that came, and the status that it was answered with.
type probed struct {
	at     time.Time
	status int
}

func startWeb(t *testing.T, status int) *web {
	t.Helper()
	b := &web{t: t, port: testenv.FreePort(t)}
	b.status.Store(int64(status))
	t.Cleanup(b.stop)
	b.start(false)
	return b
}

func startSecureWeb(t *testing.T) *web {
	t.Helper()
	b := &web{t: t, port: testenv.FreePort(t)}
	b.status.Store(http.StatusOK)
	t.Cleanup(b.stop)
	b.start(true)
	return b
}

// start serves at the port, again after a stop.
func (b *web) start(secure bool) {
	b.t.Helper()
	server := httptest.NewUnstartedServer(b)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // a TLS port is spoken to in clear, and the other way
	testenv.Eventually(b.t, patience, func() error {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", b.port))
		if err != nil {
			return err // a process that starts just then holds a copy of what was closed
		}
		server.Listener.Close()
		server.Listener = listener
		return nil
	})
	if b.server = server; secure {
		server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		server.StartTLS()
		return
	}
	server.Start()
}

func (b *web) stop() {
	if b.server != nil {
		b.server.CloseClientConnections()
		b.server.Close()
		b.server = nil
	}
}

// ServeHTTP implements [http.Handler].
func (b *web) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	code := int(b.status.Load())
	b.mu.Lock()
	b.probes = append(b.probes, probed{time.Now(), code})
	b.mu.Unlock()
	if code == 0 {
		<-r.Context().Done() // the prober gives up
		return
	}
	if b.after > 0 {
		select {
		case <-time.After(b.after):
		case <-r.Context().Done():
		}
	}
	w.WriteHeader(code)
}

// since returns the probes that came after a time.
func (b *web) since(at time.Time) []probed {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, p := range b.probes {
		if p.at.After(at) {
			return append([]probed(nil), b.probes[i:]...)
		}
	}
	return nil
}

// startRPC serves gRPC health, and returns its port and how to change it.
func startRPC(t *testing.T, status grpc_health_v1.HealthCheckResponse_ServingStatus) (int, *health.Server) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, states := grpc.NewServer(), health.NewServer()
	states.SetServingStatus("", status)
	grpc_health_v1.RegisterHealthServer(server, states)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().(*net.TCPAddr).Port, states
}

// startLine accepts connections, and answers each with a line once it has said something; without a line it stays
// silent.
func startLine(t *testing.T, line string) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			group.Go(func() { converse(ctx, conn, line) })
		}
	})
	t.Cleanup(func() {
		cancel()
		listener.Close()
		group.Wait()
	})
	return listener.Addr().(*net.TCPAddr).Port
}

func converse(ctx context.Context, conn net.Conn, line string) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	buffer := make([]byte, 512)
	for {
		if _, err := conn.Read(buffer); err != nil {
			return
		}
		if line == "" {
			continue
		}
		if _, err := io.WriteString(conn, line); err != nil {
			return
		}
	}
}
