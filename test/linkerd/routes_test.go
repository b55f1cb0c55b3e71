//go:build e2e

package linkerd_test

import (
	"strings"
	"testing"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// TestAProxyOfTodayFollowsRoutes has a router come, change and go.
func TestAProxyOfTodayFollowsRoutes(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.WriteEntry(`Kind = "service-defaults"
Name = "api"
Protocol = "http"`)
	s.RegisterService(testenv.Service{Name: "api", Address: "10.0.0.1", Port: 80})
	s.says(t, "profile", "api.service.consul", "name=api.service.dc1.consul", "opaque=false")
	profile := ask(t, "profile", s.catenary.GRPCAddr, "api.service.consul:8080")
	const whole = "overrides=api.service.dc1.consul:8080=10000"
	profile.wants("routes=0", whole, "budget=0.2/10/10s", "parent=consul/Service/default/api:8080 profile= ",
		"backends=consul/Service/default/api:8080")

	const router = `Kind = "service-router"
Name = "api"
Routes = [
  {
    Match { HTTP { PathExact = "/a.b", Methods = ["GET", "POST"] } }
    Destination { RequestTimeout = "1500ms", NumRetries = 2, RetryOnStatusCodes = [502, 503, 429] }
  },
  { Match { HTTP { PathRegex = "/x|/y" } }, Destination { RetryOn = ["5xx"] } },
  { Match { HTTP { PathPrefix = "/hidden", Header = [{ Name = "x", Present = true }] } }, Destination { RequestTimeout = "9s" } },
  { Match { HTTP { PathPrefix = "/hidden/but" } }, Destination { RequestTimeout = "3s", RetryOnConnectFailure = true } },
]`
	s.WriteEntry(router)
	got := profile.wants("routes=4", whole, "profile=consul/service-router/default/api:0")
	want := strings.Join([]string{
		`[route=GET,POST /a.b all(path(/a\.b),any(method(#0),method(#1))) timeout=1500ms retries 429-429=failure 502-503=failure 500-599=success]`,
		`[route=~/x|/y path(/[xy]) retries 500-599=failure]`,
		`[route=/hidden/but* path(/hidden/but.*)]`,
		`[route=* path(.*)]`,
	}, " ")
	if _, routes, _ := strings.Cut(got, " ["); "["+routes != want {
		t.Errorf("the routes are\n[%s, want\n%s", routes, want)
	}

	for what, want := range map[string]float64{"left-out": 1, "weakened": 1} {
		if got := s.catenary.Metrics()[`catenary_linkerd_profile_routes{what="`+what+`"}`]; got != want {
			t.Errorf("%v routes are %s by the metrics, want %v", got, what, want)
		}
	}

	// What says the same is not said again: the next message is that of the next change.
	s.WriteEntry(strings.ReplaceAll(router, "9s", "8s"))
	s.DeleteEntry("service-router", "api")
	profile.wants("routes=0", "profile= ")
	s.WriteEntry(`Kind = "service-resolver"
Name = "api"
RequestTimeout = "2s"`)
	profile.wants("routes=1", "path(.*) timeout=2000ms", whole)
	s.WriteEntry(`Kind = "service-defaults"
Name = "elsewhere"
Protocol = "http"`)
	s.WriteEntry(`Kind = "service-resolver"
Name = "api"
Redirect = { Service = "elsewhere" }`)
	profile.wants("routes=0", whole)
	s.DeleteEntry("service-resolver", "api")
	s.WriteEntry(`Kind = "service-defaults"
Name = "api"
Protocol = "tcp"`)
	profile.wants("opaque=true", whole)
}
