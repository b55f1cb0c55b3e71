package admin_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/chain/explain"
	"github.com/catenary-mesh/catenary/internal/admin"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/snapshot"
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

func TestClientAsksForChains(t *testing.T) {
	store := facts.New()
	entries(store, timeout(3*time.Second), &chain.ServiceSplitter{
		Header: chain.Header{Name: "bad"}, Splits: []chain.ServiceSplit{{Weight: 100}},
	})
	c := serve(t, discovering(store))
	key := snapshot.ChainKey{Service: "a/b?c", Datacenter: "dc2", Overrides: chain.Overrides{
		Protocol: "http", ConnectTimeout: 7 * time.Second, MeshGateway: "local",
	}}
	got, err := c.DiscoveryChain(t.Context(), key)
	if err != nil || got.ServiceName != "a/b?c" || got.Datacenter != "dc2" || got.CustomizationHash != "5379effb" {
		t.Errorf("%+v %v", got, err)
	}
	why, err := c.Explanation(t.Context(), key)
	if err != nil || why.Service != "a/b?c" || why.Start.Kind != explain.KindTarget || why.Facts[0].From != "override" {
		t.Errorf("%+v %v", why, err)
	}
	if got, err := c.DiscoveryChain(t.Context(), snapshot.ChainKey{Service: "web"}); err != nil || got.Datacenter != "dc1" || got.CustomizationHash != "" {
		t.Errorf("%+v %v", got, err)
	}
	for _, tt := range []struct {
		c      *admin.Client
		status int
	}{{c, 500}, {serve(t, discovering(facts.New())), 503}} {
		_, err := tt.c.DiscoveryChain(t.Context(), snapshot.ChainKey{Service: "bad"})
		if refused, ok := errors.AsType[*admin.RefusedError](err); !ok || refused.Status != tt.status {
			t.Errorf("want %d: %v", tt.status, err)
		}
		_, err = tt.c.Explanation(t.Context(), snapshot.ChainKey{Service: "bad"})
		if refused, ok := errors.AsType[*admin.RefusedError](err); !ok || refused.Status != tt.status {
			t.Errorf("want %d: %v", tt.status, err)
		}
	}
	for _, body := range []string{"<html>", "{}"} {
		other := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
		if _, err := other.DiscoveryChain(t.Context(), key); err == nil || !strings.Contains(err.Error(), "is not a catenary") {
			t.Errorf("%s: %v", body, err)
		}
		if _, err := other.Explanation(t.Context(), key); err == nil || !strings.Contains(err.Error(), "is not a catenary") {
			t.Errorf("%s: %v", body, err)
		}
	}
}
