package catalog

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/catenary-mesh/catenary/test/load/wire"
)

func TestEverySidecarHasItsUpstreamsOnceAndTheFlippedOneFirst(t *testing.T) {
	for _, c := range []Config{{Services: 200, Upstreams: 10}, {Services: 200, Upstreams: 200}, {Services: 1, Upstreams: 1}, {Services: 2, Upstreams: 2}} {
		for i := range 300 {
			seen := map[int]bool{}
			list := c.upstreams(i)
			for _, s := range list {
				if s < 0 || s >= c.Services || seen[s] {
					t.Fatalf("%+v: the upstreams of %d are %v", c, i, list)
				}
				seen[s] = true
			}
			if len(list) != c.Upstreams || list[0] != 0 {
				t.Fatalf("%+v: the upstreams of %d are %v", c, i, list)
			}
		}
	}
}

func TestASidecarSaysTheNameOfItsService(t *testing.T) {
	for apps, want := range map[int]wire.Node{
		0: {ID: "app-7-7-sidecar-proxy", Cluster: "app-7", Name: "load-node-7"},
		5: {ID: "app-2-7-sidecar-proxy", Cluster: "app-2", Name: "load-node-7"},
	} {
		c := Config{Services: 3, Upstreams: 2, Apps: apps}
		if got := c.Node(7); got != want {
			t.Errorf("%d apps: %+v, want %+v", apps, got, want)
		}
		_, r := c.sidecar(7)
		if r.Service.ID != want.ID || r.Service.Proxy.DestinationServiceName != want.Cluster || r.Node != want.Name {
			t.Errorf("%d apps: registered as %+v", apps, r.Service)
		}
	}
}

func TestSizesThatCannotBe(t *testing.T) {
	ok := Config{Services: 2, Instances: 2, Sidecars: 2, Upstreams: 2}
	if err := ok.Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Config){
		"services":  func(c *Config) { c.Services = 100_000 },
		"instances": func(c *Config) { c.Instances = 0 },
		"sidecars":  func(c *Config) { c.Sidecars = 100_000 },
		"upstreams": func(c *Config) { c.Upstreams = 3 },
	} {
		c := ok
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSeedWritesEverythingAndAFlipOneCheck(t *testing.T) {
	var mu sync.Mutex
	ids, last := map[string]int{}, registration{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, err := io.ReadAll(r.Body)
		last = registration{}
		if err == nil {
			err = json.Unmarshal(body, &last)
		}
		if err != nil || r.Method != http.MethodPut || r.URL.Path != "/v1/catalog/register" || r.Header.Get("X-Consul-Token") != "t" {
			http.Error(w, "bad", http.StatusBadRequest)
		}
		if last.Service != nil {
			ids[last.Service.ID]++
		}
	}))
	defer server.Close()
	c := NewConsul(server.URL+"/", "t")
	defer c.Close()
	n, err := c.Seed(t.Context(), Config{Services: 3, Instances: 4, Sidecars: 5, Upstreams: 2})
	if err != nil || n != 2*(3*4+5) || len(ids) != n {
		t.Errorf("%d registrations, %d services: %v", n, len(ids), err)
	}
	if err := c.SetHealth(t.Context(), Watched(), false); err != nil {
		t.Error(err)
	}
	if last.Service != nil || !last.SkipNodeUpdate || last.Check.Status != "critical" || last.Check.ServiceID != "svc-0-0-sidecar-proxy" {
		t.Errorf("a flip writes %+v", last)
	}
	if _, err := NewConsul(server.URL, "").Seed(t.Context(), Config{Services: 1, Instances: 1, Upstreams: 1}); err == nil || !strings.Contains(err.Error(), "400 Bad Request: bad") {
		t.Errorf("a refused write: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Seed(ended, Config{Services: 1, Instances: 1, Upstreams: 1}); err == nil {
		t.Error("a seed that was ended has no error")
	}
}
