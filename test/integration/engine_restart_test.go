package integration_test

import (
	"fmt"
	"testing"
	"time"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
)

// frugal is what all responses may take to an Envoy that comes back with everything.
const frugal = 1000

// back waits until an Envoy has come back on a new stream and everything it then asks is settled.
func (r *relay) back(t *testing.T, c *testenv.Catenary) {
	t.Helper()
	testenv.Eventually(t, patience, func() error {
		seen := r.counted()
		for _, typ := range []string{resourcev3.ClusterType, resourcev3.EndpointType, resourcev3.ListenerType, resourcev3.RouteType} {
			if seen.asked[typ] == 0 {
				return fmt.Errorf("the Envoy has not asked for %s yet: %+v", typ, seen)
			}
		}
		return nil
	})
	proxy(t, c, r.peer.id(), xds.StateSynced)
}

// frugally fails the test when an Envoy that came back with everything is sent more than it must be. A
// client of the state of the world names the endpoints and routes it holds, but not their versions: it
// is sent each of them once.
func (r *relay) frugally(t *testing.T, had held) {
	t.Helper()
	may := map[string]int{}
	if r.peer.sotw {
		may[resourcev3.EndpointType] = had.count("endpoints")
		may[resourcev3.RouteType] = had.count("route")
	}
	testenv.Throughout(t, 300*time.Millisecond, func() error {
		seen := r.counted()
		if seen.bytes > frugal && !r.peer.sotw {
			return fmt.Errorf("%d bytes were sent: %+v", seen.bytes, seen)
		}
		for typ, n := range seen.resources {
			if n > may[typ] {
				return fmt.Errorf("%d resources of %s were sent again, which may be %d", n, typ, may[typ])
			}
		}
		return nil
	})
	t.Logf("%d bytes were sent to an Envoy that came back", r.counted().bytes)
}

func TestARestartOfTheControlPlaneSendsNothingAgain(t *testing.T) {
	t.Parallel()
	peers(t, func(t *testing.T, p peer) {
		f, v1 := oneService(t)
		f.write("stock.hcl", service("stock", "stock-s1", testenv.StartBackend(t, "s1").Port, "passing"))
		r := startRelay(t, p, f.catenary.GRPCAddr)
		api, up := port(t, "api")
		stock, stockUp := port(t, "stock")
		e := p.envoy(t, r.addr, up, stockUp)
		answers(t, api, "v1")
		answers(t, stock, "s1")
		r.back(t, f.catenary)
		had, before := holds(t, e), updates(e)
		requests := startTraffic(t, api)

		for range 2 {
			f.catenary.Stop()
			r.move(r.to)
			f.catenary.Restart()
			r.back(t, f.catenary)
			r.frugally(t, had)
			unchanged(t, e, before)
		}
		requests.only(t, "v1")
		// The stream that sends nothing again does send what is new.
		v2 := testenv.StartBackend(t, "v2")
		f.write("api.hcl", service("api", "api-v2", v2.Port, "passing"))
		answers(t, api, "v2")
		f.write("api.hcl", service("api", "api-v1", v1.Port, "passing"))
		answers(t, api, "v1")
	})
}
