package integration_test

import (
	"strings"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
)

// readAll is what catenary's token must be allowed.
const readAll = `
service_prefix "" { policy = "read" }
node_prefix "" { policy = "read" }
`

// startGuarded starts a fleet on a Consul with ACLs on and a default of deny; the token is catenary's.
func startGuarded(t *testing.T, sotw bool, token string, consul *testenv.Consul, args ...string) *fleet {
	args = append([]string{"--consul-addr", consul.HTTPAddr()}, args...)
	c := testenv.StartCatenary(t, []string{"CONSUL_HTTP_TOKEN=" + token}, args...)
	return &fleet{t: t, consul: consul, catenary: c, sotw: sotw}
}

func TestATokenThatLosesItsRightsTakesNothingAway(t *testing.T) {
	t.Parallel()
	bothForms(t, func(t *testing.T, sotw bool) {
		consul := testenv.StartConsul(t, testenv.WithACL())
		token := consul.NewToken(readAll)
		f := startGuarded(t, sotw, token, consul)
		f.token = consul.NewToken(`service "web" { policy = "write" } service "api" { policy = "read" }`)
		testenv.Eventually(t, patience, f.catenary.Ready)
		v1, v2 := testenv.StartBackend(t, "v1"), testenv.StartBackend(t, "v2")
		f.register("api", v1)
		f.register("api", v2)
		f.http("api")
		f.subsets("api", "v1", "v2")
		f.split("api", 0, 100)
		api, up := port(t, "api")
		e := f.envoy("web", up)
		e.WaitReady()
		answers(t, api, "v2")

		// Without the splitter v1 and v2 would answer; without the instances, 503.
		consul.SetPolicy(token, "")
		stays(t, api, 3*time.Second, "v2")
		proxy(t, f.catenary, "web-1", xds.StateSynced)

		// A restart knows nothing and may see nothing: the live Envoy keeps what it has.
		f.catenary.Restart()
		p := proxy(t, f.catenary, "web-1", xds.StatePending)
		if p.Reason == "" {
			t.Error("a pending proxy has no reason")
		}
		stays(t, api, 2*time.Second, "v2")
		if err := f.catenary.Ready(); err == nil {
			t.Error("catenary is ready although its token may see nothing")
		}
		if log := f.catenary.Log(); strings.Contains(log, token) || strings.Contains(log, f.token) {
			t.Error("the log holds a token")
		}

		// The rights return, and with them the truth: what was removed meanwhile goes.
		f.split("api", 100, 0)
		stays(t, api, time.Second, "v2")
		consul.SetPolicy(token, readAll)
		testenv.Eventually(t, 45*time.Second, f.catenary.Ready)
		answers(t, api, "v1")
		proxy(t, f.catenary, "web-1", xds.StateSynced)
	})
}
