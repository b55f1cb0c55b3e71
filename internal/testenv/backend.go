package testenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Backend is a server on 127.0.0.1 that says which version it is.
type Backend struct {
	// Version is what it answers.
	Version string
	// Port is where it listens.
	Port int

	count atomic.Int64
	last  atomic.Pointer[http.Request]
	stop  func()
}

// Addr returns host:port.
func (b *Backend) Addr() string { return fmt.Sprintf("127.0.0.1:%d", b.Port) }

// Count returns how many requests, or connections, it has served.
func (b *Backend) Count() int { return int(b.count.Load()) }

// Last returns the last request it got, whose body is gone, or nil.
func (b *Backend) Last() *http.Request { return b.last.Load() }

// Stop ends the backend before the test does.
func (b *Backend) Stop() { b.stop() }

// StartBackend starts an HTTP server that answers every request with its version. It speaks
// HTTP/1.1 and, unencrypted, HTTP/2.
func StartBackend(t testing.TB, version string) *Backend {
	t.Helper()
	lis := listen(t)
	b := &Backend{Version: version, Port: lis.Addr().(*net.TCPAddr).Port}
	server := &http.Server{
		ReadHeaderTimeout: startTimeout,
		Protocols:         new(http.Protocols),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b.count.Add(1)
			b.last.Store(r)
			w.Header().Set("X-Backend", version)
			fmt.Fprint(w, version)
		}),
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	done := make(chan error, 1)
	go func() { done <- server.Serve(lis) }()
	b.stop = sync.OnceFunc(func() {
		server.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("testenv: backend %s: %v", version, err)
		}
	})
	t.Cleanup(b.stop)
	return b
}

// StartTCPBackend starts a server that writes its version and a newline to each connection and then
// sends back what it gets.
func StartTCPBackend(t testing.TB, version string) *Backend {
	t.Helper()
	lis := listen(t)
	b := &Backend{Version: version, Port: lis.Addr().(*net.TCPAddr).Port}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			b.count.Add(1)
			wg.Go(func() { echo(ctx, conn, version) })
		}
	})
	b.stop = sync.OnceFunc(func() {
		cancel()
		lis.Close()
		wg.Wait()
	})
	t.Cleanup(b.stop)
	return b
}

func echo(ctx context.Context, conn net.Conn, version string) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if _, err := fmt.Fprintln(conn, version); err == nil {
		_, _ = io.Copy(conn, conn) // ends when the other side or the test does
	}
}

// Get requests a URL on a new connection and returns the status and the body.
func Get(url string, header http.Header) (int, string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	for k, v := range header {
		req.Header[k] = v
	}
	req.Host = header.Get("Host")
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}
