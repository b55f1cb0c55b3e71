package integration_test

import "testing"

// While a cluster warms, an Envoy waits for its endpoints. When the control plane goes away just then,
// the one that comes has to send them, though the Envoy says that it has them.
func TestAChangedClusterThatWarmsWhileTheControlPlaneIsRestartedBecomesActive(t *testing.T) {
	t.Parallel()
	peers(t, func(t *testing.T, p peer) {
		f, _ := oneService(t)
		r := startRelay(t, f.catenary.GRPCAddr)
		api, up := port(t, "api")
		e := p.envoy(t, r.addr, up)
		answers(t, api, "v1")
		requests := startTraffic(t, api)
		r.missEndpoints(t, f.catenary, e, func() { f.write("resolver.hcl", connectTimeout("api", 33)) })
		promptly(t, "a changed cluster", func() error { return timesOutAfter(t, e, apiCluster, 33) })
		requests.only(t, "v1")
	})
}
