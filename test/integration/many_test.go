package integration_test

import (
	"fmt"
	"testing"

	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
)

// TestMoreServicesThanConnectionsTakeTurns has one proxy need more services than there are connections
// to follow them by: each is served, and a change of any arrives.
func TestMoreServicesThanConnectionsTakeTurns(t *testing.T) {
	t.Parallel()
	const n = 70
	f := startFleet(t, false, "--consul-mode", "poll")
	v1 := testenv.StartBackend(t, "v1")
	var names, upstreams []string
	var ports []int
	for i := range n {
		name := fmt.Sprintf("s%02d", i)
		p, up := port(t, name)
		names, ports, upstreams = append(names, name), append(ports, p), append(upstreams, up)
		f.register(name, v1)
	}
	f.consul.WriteEntry("Kind = \"proxy-defaults\"\nName = \"global\"\nConfig { protocol = \"http\" }\n")
	f.envoy("web", upstreams...).WaitReady()
	for _, p := range ports {
		answers(t, p, "v1")
	}
	proxy(t, f.catenary, "web-1", xds.StateSynced)
	for _, i := range []int{0, n / 2, n - 1} {
		f.consul.SetCheck(names[i]+"-v1", "critical")
		answers(t, ports[i], "503")
	}
}
