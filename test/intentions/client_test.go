package intentions_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// held is something that stays open: a connection, a stream, a websocket.
type held struct {
	name  string
	ended chan struct{}
	echo  func() error // sends something and awaits it; only connections have it
}

// hold reads until the end.
func hold(name string, r io.Reader) *held {
	h := &held{name: name, ended: make(chan struct{})}
	go func() {
		defer close(h.ended)
		_, _ = io.Copy(io.Discard, r)
	}()
	return h
}

// within says whether it ends in time.
func (h *held) within(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-h.ended:
		return true
	case <-timer.C:
		return false
	}
}

func (h *held) open() bool { return !h.within(0) }

func (d *door) dial(service string, protocols ...string) (*tls.Conn, error) {
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: patience}, Config: d.ca.client(service, protocols...)}
	conn, err := dialer.DialContext(d.t.Context(), "tcp", d.addr())
	if err != nil {
		return nil, err
	}
	d.t.Cleanup(func() { conn.Close() })
	return conn.(*tls.Conn), nil
}

// connect connects as a service, and returns an error when the backend does not answer.
func (d *door) connect(service string) (*held, error) {
	conn, err := d.dial(service)
	if err != nil {
		return nil, err
	}
	lines := make(chan string, 1)
	h := &held{name: "connection of " + service, ended: make(chan struct{})}
	go func() {
		defer close(h.ended)
		for read := bufio.NewScanner(conn); read.Scan(); {
			lines <- read.Text()
		}
	}()
	expect := func(want string) error {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case got := <-lines:
			if got != want {
				return fmt.Errorf("%s: got %q, want %q", h.name, got, want)
			}
			return nil
		case <-h.ended:
			return fmt.Errorf("%s has ended", h.name)
		case <-timer.C:
			return fmt.Errorf("%s has no answer", h.name)
		}
	}
	h.echo = func() error {
		if _, err := io.WriteString(conn, "ping\n"); err != nil {
			return err
		}
		return expect("ping")
	}
	// The first byte of the client is when layer 4 is decided, and only then the backend greets.
	if _, err := io.WriteString(conn, "ping\n"); err != nil {
		return nil, err
	}
	for _, want := range []string{d.tcp.Version, "ping"} {
		if err := expect(want); err != nil {
			conn.Close()
			return nil, err
		}
	}
	return h, nil
}

func (d *door) mustConnect(t *testing.T, service string) *held {
	t.Helper()
	var h *held
	testenv.Eventually(t, patience, func() (err error) {
		h, err = d.connect(service)
		return err
	})
	return h
}

// turnsAway waits until no new connection of a service is served.
func (d *door) turnsAway(t *testing.T, service string) {
	t.Helper()
	testenv.Eventually(t, patience, func() error {
		if _, err := d.connect(service); err == nil {
			return fmt.Errorf("%s is served", service)
		}
		return nil
	})
}

// caller is an HTTP client of a service, which keeps its connections.
type caller struct {
	*door
	service string
	path    string
	client  *http.Client
}

func (d *door) caller(service string, protocol string) *caller {
	transport := &http.Transport{TLSClientConfig: d.ca.client(service), ForceAttemptHTTP2: protocol == "h2"}
	d.t.Cleanup(transport.CloseIdleConnections)
	return &caller{door: d, path: "/", service: service + " over " + protocol, client: &http.Client{Transport: transport, Timeout: patience}}
}

// get returns the status of a request, and what it went over.
func (c *caller) get() (status int, proto string, err error) {
	resp, err := c.client.Get("https://" + c.addr() + c.path)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, resp.Proto, err
}

// awaits waits until requests get a status.
func (c *caller) awaits(t *testing.T, want int) {
	t.Helper()
	testenv.Eventually(t, patience, func() error {
		status, _, err := c.get()
		if err == nil && status != want {
			err = fmt.Errorf("%s: status %d", c.service, status)
		}
		return err
	})
}

// stream opens a response that does not end.
func (c *caller) stream(t *testing.T) *held {
	t.Helper()
	client := &http.Client{Transport: c.client.Transport}
	resp, err := client.Get("https://" + c.addr() + "/stream")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v, %v", c.service, resp, err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return hold("stream of "+c.service, resp.Body)
}

// websocket opens a connection that is no longer HTTP.
func (d *door) websocket(t *testing.T, service string) *held {
	t.Helper()
	conn, err := d.dial(service)
	if err != nil {
		t.Fatal(err)
	}
	const request = "GET /websocket HTTP/1.1\r\nHost: server\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	read := bufio.NewReader(conn)
	resp, err := http.ReadResponse(read, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%s: %v, %v", service, resp, err)
	}
	return hold("websocket of "+service, read)
}

// startWeb starts a server that answers at once, or never ends to.
func startWeb(t *testing.T) int {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	mux.HandleFunc("/websocket", func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.Copy(conn, io.MultiReader(strings.NewReader(
			"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"), conn))
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: patience}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(lis) }()
	t.Cleanup(func() { server.Close(); <-done })
	return lis.Addr().(*net.TCPAddr).Port
}
