package fleet_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/catenary-mesh/catenary/test/load/catalog"
	"github.com/catenary-mesh/catenary/test/load/fleet"
)

func TestAnEncryptedServerIsAskedWithTheToken(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Grpc-Status", "7")
		w.Header().Set("Grpc-Message", fmt.Sprint(r.Proto, " ", r.URL.Path, " ", r.Header.Get("X-Consul-Token")))
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	c := (&seeded{size: catalog.Config{Services: 1, Sidecars: 2, Upstreams: 1}}).config(server.Listener.Addr().String())
	c.TLS, c.Token = true, "secret"
	r, err := fleet.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	const want = "with code 7: HTTP/2.0 /envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources secret"
	if !r.Failed() || !strings.Contains(fmt.Sprint(r.Errors), want) {
		t.Errorf("the streams ended with %q, want %s", r.Errors, want)
	}
}
