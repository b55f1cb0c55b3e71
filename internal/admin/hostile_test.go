package admin_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/catenary-mesh/catenary/internal/admin"
)

// ids are IDs of proxies that the server admits, however odd.
var ids = []string{
	"web-1", "../../etc/passwd", "..", ".", "a/b", "a//b", "/a", "a#1", "a?b=c", "a b", "%2e%2e", "%", "<script>", "веб-1 🐙",
	strings.Repeat("x", 1024), strings.Repeat("🐙", 256),
}

func TestAProxyIsFoundByAnyID(t *testing.T) {
	cfg := config()
	cfg.Proxies = func() []admin.Proxy {
		var list []admin.Proxy
		for _, id := range ids {
			list = append(list, admin.Proxy{ID: id})
		}
		return list
	}
	c := serve(t, admin.New(cfg))
	for _, id := range ids {
		list, err := c.Proxies(t.Context(), id)
		if err != nil || len(list) != 1 || list[0].ID != id {
			t.Errorf("%.40q: %v %v", id, list, err)
		}
	}
}

func TestTwoProxiesOfOneIDAreBothFound(t *testing.T) {
	cfg := config()
	cfg.Proxies = func() []admin.Proxy {
		return []admin.Proxy{{ID: "web-1", Service: "web"}, {ID: "web-1", Service: "thief"}, {ID: "web-10"}}
	}
	list, err := serve(t, admin.New(cfg)).Proxies(t.Context(), "web-1")
	if err != nil || len(list) != 2 || list[0].Service == list[1].Service {
		t.Errorf("%v %v", list, err)
	}
}

func TestAnyServiceNameIsAskedForAsItIs(t *testing.T) {
	cfg := config()
	var asked []string
	cfg.Endpoints = func(_ context.Context, s string) admin.Endpoints {
		asked = append(asked, s)
		return admin.Endpoints{Service: s}
	}
	c := serve(t, admin.New(cfg))
	for _, name := range ids {
		if e, err := c.Endpoints(t.Context(), name); err != nil || e.Service != name {
			t.Errorf("%.40q: %+v %v", name, e, err)
		}
	}
	if !slices.Equal(asked, ids) {
		t.Errorf("asked for %q", asked)
	}
}

func TestARequestThatIsTooMuchIsRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- admin.New(config()).Run(ctx, l) }()
	for request, want := range map[string]int{
		"GET /" + strings.Repeat("x", 1<<20) + " HTTP/1.1\r\nHost: x\r\n\r\n":                              http.StatusRequestHeaderFieldsTooLarge,
		"GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n":                       http.StatusRequestHeaderFieldsTooLarge,
		"GET /api/v1/proxies/\x00 HTTP/1.1\r\nHost: x\r\n\r\n":                                             http.StatusBadRequest,
		"GET /api/v1/../../etc/passwd HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n":                    http.StatusTemporaryRedirect,
		"POST /api/v1/proxies HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n":                   http.StatusMethodNotAllowed,
		"TRACE /api/v1/proxies HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n":                           http.StatusMethodNotAllowed,
		"GET /api/v1/chains/" + strings.Repeat("%2e", 1000) + " HTTP/1.1\r\nHost: x\r\n\r\n":               http.StatusOK,
		"GET /api/v1/proxies/%ff%fe HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n":                      http.StatusNotFound,
		"GET /api/v1/proxies HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n": http.StatusNotImplemented,
	} {
		if status, err := raw(l.Addr(), request); err != nil || status != want {
			t.Errorf("%.60q is answered %d %v, want %d", request, status, err, want)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// raw sends a request as it is written, and returns the status of the answer.
func raw(addr net.Addr, request string) (int, error) {
	conn, err := net.Dial("tcp", addr.String())
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	go func() { _, _ = io.WriteString(conn, request) }() // the answer comes before the end of one too long
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, fmt.Errorf("no answer: %w", err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode, nil
}
