package server_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/catenary-mesh/catenary/hds/server"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// post sends a message by REST.
func post(t *testing.T, url string, m proto.Message) (int, *healthv3.HealthCheckSpecifier) {
	t.Helper()
	body, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	spec := &healthv3.HealthCheckSpecifier{}
	if err == nil && resp.StatusCode == http.StatusOK {
		err = protojson.Unmarshal(raw, spec)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return resp.StatusCode, spec
}

func TestACheckerMayUseREST(t *testing.T) {
	r := newRig(t, nil)
	r.service("api", tcp(), 8001)
	rest := httptest.NewServer(http.HandlerFunc(r.server.ServeREST))
	defer rest.Close()
	defer http.DefaultClient.CloseIdleConnections()
	code, spec := post(t, rest.URL+server.PathV3, hello("f"))
	testenv.Eventually(t, patience, func() error {
		if code == http.StatusOK && len(spec.GetClusterHealthChecks()) > 0 {
			code, spec = post(t, rest.URL+server.PathV3, reportOn(spec, allDown))
		} else {
			code, spec = post(t, rest.URL+server.PathV3, hello("f"))
		}
		for _, v := range must(r.store.View().Verdicts(facts.Health("dc1", "api"))) {
			if !v.Up {
				return nil
			}
		}
		return fmt.Errorf("no verdict; status %d", code)
	})
	resp, err := http.Post(rest.URL+server.PathV3, "application/json", strings.NewReader("nonsense"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("nonsense is answered with %d", resp.StatusCode)
	}
}

func TestRESTAdmitsAsGRPCDoes(t *testing.T) {
	r := newRig(t, func(c *server.Config) { c.Guard = admitted{} })
	rest := httptest.NewServer(http.HandlerFunc(r.server.ServeREST))
	defer rest.Close()
	defer http.DefaultClient.CloseIdleConnections()
	if code, _ := post(t, rest.URL+server.PathV3, hello("stranger")); code != http.StatusForbidden {
		t.Errorf("a stranger gets %d", code)
	}
}
