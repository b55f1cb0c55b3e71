package integration_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
)

// reporting starts an Envoy that reports its loads.
func (f *fleet) reporting(version testenv.EnvoyVersion, service string, upstreams ...string) *testenv.Envoy {
	f.t.Helper()
	args := []string{
		"bootstrap", "envoy", "--service", service, "--proxy-id", service + "-1", "--load-reports",
		"--grpc-addr", f.catenary.GRPCAddr, "--admin-bind", "127.0.0.1:0",
	}
	for _, u := range upstreams {
		args = append(args, "--upstream", u)
	}
	r := testenv.Run(f.t, nil, args...)
	if r.Code != 0 {
		f.t.Fatalf("catenary %v: exit %d: %s", args, r.Code, r.Stderr)
	}
	return testenv.StartEnvoy(f.t, []byte(r.Stdout), testenv.WithEnvoyVersion(version))
}

// loadOf is the count of requests to a service that ended with a status, in all places.
func (f *fleet) loadOf(service, status string) (sum float64) {
	f.t.Helper()
	for sample, value := range f.catenary.Metrics() {
		if strings.HasPrefix(sample, "catenary_load_requests_total{") && strings.Contains(sample, fmt.Sprintf("service=%q", service)) &&
			strings.Contains(sample, fmt.Sprintf("status=%q", status)) {
			sum += value
		}
	}
	return sum
}

func TestEnvoysSayWhatBecameOfTheirRequests(t *testing.T) {
	t.Parallel()
	for _, v := range []testenv.EnvoyVersion{testenv.NewestEnvoy, testenv.OldestEnvoy} {
		t.Run(string(v), func(t *testing.T) {
			f := startFleet(t, false, "--load-report-interval", "1s")
			good := testenv.StartBackend(t, "v1")
			f.register("api", good)
			f.http("api", "broken")
			bad := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
			t.Cleanup(bad.Close)
			f.consul.RegisterService(testenv.Service{Name: "broken", ID: "broken-1", Port: bad.Listener.Addr().(*net.TCPAddr).Port})
			api, up := port(t, "api")
			broken, upBroken := port(t, "broken")
			f.reporting(v, "web", up, upBroken).WaitReady()
			proxy(t, f.catenary, "web-1", xds.StateSynced)
			testenv.Eventually(t, patience, func() error {
				// What it does before it was asked does not count.
				if n := f.catenary.Metrics()["catenary_load_reports_total"]; n == 0 {
					return fmt.Errorf("%v reports", n)
				}
				return nil
			})
			if got := tally(api, 20); got["v1"] != 20 {
				t.Fatalf("answered %v", got)
			}
			if got := tally(broken, 3); got[fmt.Sprint(http.StatusServiceUnavailable)] != 3 {
				t.Fatalf("answered %v", got)
			}
			testenv.Eventually(t, patience, func() error {
				success, failed := f.loadOf("api", xds.LoadSuccess), f.loadOf("broken", xds.LoadError)
				if success != 20 || failed != 3 {
					return fmt.Errorf("counted %v good requests of api and %v bad ones of broken, want 20 and 3", success, failed)
				}
				return nil
			})
			if n := f.loadOf("other", xds.LoadSuccess) + f.loadOf("other", xds.LoadError); n != 0 {
				t.Errorf("%v requests count as those of other services", n)
			}
		})
	}
}
