package oraclexds_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// state is a Consul that is given a case. Each case has its own: a new sidecar is at first served from what
// Consul has cached about the services and entries of earlier ones.
type state struct {
	consul      *testenv.Consul
	client      http.Client
	trustDomain string
}

// startWorld starts a Consul. It ends with the test.
func startWorld(t *testing.T, w world) *state {
	t.Helper()
	// One stream more than there are proxies would be turned away.
	options := []testenv.ConsulOption{testenv.WithHCL(`performance { enable_xds_load_balancing = false }`)}
	switch w {
	case open:
	case guarded:
		options = append(options, testenv.WithACL())
	case joined:
		options = append(options, testenv.WithHCL(`primary_datacenter = "dc1"`))
	default:
		t.Fatalf("there is no world %q", w)
	}
	s := &state{consul: testenv.StartConsul(t, options...)}
	t.Cleanup(s.client.CloseIdleConnections)
	var roots struct{ TrustDomain string }
	if err := s.call(http.MethodGet, "/v1/connect/ca/roots", nil, &roots); err != nil {
		t.Fatal(err)
	}
	s.trustDomain = roots.TrustDomain
	if w == joined {
		testenv.StartConsul(t, testenv.WithHCL(`primary_datacenter = "dc1"`), testenv.WithDatacenter("dc2"), testenv.WithWAN(s.consul))
		testenv.Eventually(t, patience, func() error {
			return s.call(http.MethodGet, "/v1/catalog/services?dc=dc2", nil, nil)
		})
	}
	return s
}

// write gives Consul what a case consists of.
func (s *state) write(c *scenario) error {
	for _, e := range c.Entries {
		if err := s.call(http.MethodPut, "/v1/config", e, nil); err != nil {
			return fmt.Errorf("entry %v/%v: %w", e["Kind"], e["Name"], err)
		}
	}
	for _, r := range c.Services {
		path := "/v1/catalog/register?dc=" + url.QueryEscape(r["Datacenter"].(string))
		if err := s.call(http.MethodPut, path, r, nil); err != nil {
			return fmt.Errorf("register %v: %w", r["Service"].(object)["ID"], err)
		}
	}
	return nil
}

// call makes a request, and decodes its answer where that is wanted.
func (s *state) call(method, path string, body, into any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequest(method, "http://"+s.consul.HTTPAddr()+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	req.Header.Set("X-Consul-Token", s.consul.Token())
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, answer)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer, into)
}
