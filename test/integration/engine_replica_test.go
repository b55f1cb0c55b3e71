package integration_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
)

func TestAnEnvoyThatMovesToAnotherReplicaIsSentNothingAgain(t *testing.T) {
	t.Parallel()
	f := startFleet(t, false)
	f.http("api", "stock")
	for _, v := range []string{"v1", "v2"} {
		f.register("api", testenv.StartBackend(t, v))
	}
	f.register("stock", testenv.StartBackend(t, "s1"))
	f.subsets("api", "v1", "v2")
	f.split("api", 0, 100)
	other := testenv.StartCatenary(t, f.consul.Env(), "--consul-addr", f.consul.HTTPAddr())
	testenv.Eventually(t, patience, other.Ready)
	peers(t, func(t *testing.T, p peer) {
		r := startRelay(t, p, f.catenary.GRPCAddr)
		api, up := port(t, "api")
		stock, stockUp := port(t, "stock")
		e := p.envoy(t, r.addr, up, stockUp)
		answers(t, api, "v2")
		answers(t, stock, "s1")
		r.back(t, f.catenary)
		had, before := holds(t, e), updates(e)
		acked := r.settled(t, f.catenary)
		requests := startTraffic(t, api)

		// There, and back to where it came from.
		for _, c := range []*testenv.Catenary{other, f.catenary} {
			r.move(c.GRPCAddr)
			r.back(t, c)
			r.frugally(t, had)
			unchanged(t, e, before)
		}
		requests.only(t, "v2")

		// A new Envoy that knows nothing gets the same versions from the other replica.
		e.Stop()
		r.move(other.GRPCAddr)
		e.Restart()
		e.WaitReady()
		answers(t, api, "v2")
		r.back(t, other)
		if now := r.settled(t, other); !maps.Equal(acked, now) {
			t.Errorf("the replicas name versions %v and %v", acked, now)
		}
		if now := holds(t, e); !p.sotw && !maps.Equal(had.versions, now.versions) {
			// In the state of the world each resource has the version of all that came with it.
			t.Errorf("the Envoy held versions %v, and holds %v", had.versions, now.versions)
		}
	})
}

// settled waits until an Envoy that began with nothing has accepted everything, and returns the versions.
func (r *relay) settled(t *testing.T, c *testenv.Catenary) map[string]string {
	t.Helper()
	acked := map[string]string{}
	testenv.Eventually(t, patience, func() error {
		for _, typ := range proxy(t, c, r.peer.id(), xds.StateSynced).Types {
			least := map[string]int{"cluster": 3, "endpoint": 3, "listener": 2, "route": 2}[typ.Type]
			if typ.Acked == "" || typ.Acked != typ.Sent || typ.Resources < least {
				return fmt.Errorf("not settled: %+v", typ)
			}
			acked[typ.Type] = typ.Acked
		}
		if len(acked) < 4 {
			return fmt.Errorf("settled are %v only", acked)
		}
		return nil
	})
	return acked
}
