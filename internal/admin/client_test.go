package admin_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/catenary-mesh/catenary/internal/admin"
)

func serve(t *testing.T, h http.Handler) *admin.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return admin.NewClient(strings.TrimPrefix(s.URL, "http://"))
}

func TestClientReadsWhatTheServerSays(t *testing.T) {
	cfg := config()
	cfg.Proxies = func() []admin.Proxy { return []admin.Proxy{{ID: "ns/web"}, {ID: "api"}} }
	cfg.Problems = func() []admin.Problem { return []admin.Problem{{Chain: "api"}} }
	c := serve(t, admin.New(cfg))
	if list, err := c.Proxies(t.Context(), ""); err != nil || len(list) != 2 {
		t.Errorf("proxies: %v %v", list, err)
	}
	if list, err := c.Proxies(t.Context(), "ns/web"); err != nil || len(list) != 1 {
		t.Errorf("one proxy: %v %v", list, err)
	}
	if e, err := c.Endpoints(t.Context(), "api"); err != nil || e.Service != "api" {
		t.Errorf("endpoints: %v %v", e, err)
	}
	if list, err := c.Problems(t.Context()); err != nil || len(list) != 1 || list[0].Chain != "api" {
		t.Errorf("problems: %v %v", list, err)
	}
	_, err := c.Proxies(t.Context(), "nobody")
	if refused, ok := errors.AsType[*admin.RefusedError](err); !ok || refused.Status != http.StatusNotFound ||
		!strings.Contains(refused.Message, "nobody") {
		t.Errorf("no such proxy: %v", err)
	}
}

func TestClientSaysWhatIsThereInstead(t *testing.T) {
	other := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }))
	if _, err := other.Problems(t.Context()); err == nil || !strings.Contains(err.Error(), "is not a catenary") {
		t.Errorf("a web site: %v", err)
	}
	nothing := httptest.NewServer(http.NotFoundHandler())
	nothing.Close()
	if _, err := admin.NewClient(nothing.URL).Problems(t.Context()); err == nil || !strings.Contains(err.Error(), "no catenary answers at http://127") {
		t.Errorf("nothing: %v", err)
	}
}
