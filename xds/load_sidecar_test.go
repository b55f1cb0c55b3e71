package xds_test

import (
	"fmt"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// sidecars registers the sidecars of web, by ID, with their upstreams.
func (c *control) sidecars(upstreams map[string][]string) {
	var list []*facts.Instance
	for id, services := range upstreams {
		in := at("web-sidecar-proxy", &testenv.Backend{Port: 21000}, "v1", facts.StatusPassing)
		in.Service.ID = id
		in.Service.Proxy = &facts.Proxy{DestinationServiceName: "web"}
		for i, s := range services {
			in.Service.Proxy.Upstreams = append(in.Service.Proxy.Upstreams, facts.Upstream{DestinationName: s, LocalBindPort: 9000 + i})
		}
		list = append(list, in)
	}
	c.store.Commit(func(tx *facts.Tx) { tx.Instances(facts.Proxies("dc1", "web"), list, confirmed) })
}

// TestASidecarThatLosesAnUpstreamIsNotTroubledByItAgain has two share all they have, until the registration of
// one changes.
func TestASidecarThatLosesAnUpstreamIsNotTroubledByItAgain(t *testing.T) {
	forms(t, func(t *testing.T, sotw bool) {
		c := startMesh(t).control
		c.load("s0", "s1", "web")
		c.closed()
		number := func(service string, n uint32) {
			c.store.Commit(func(tx *facts.Tx) {
				tx.Instances(facts.Connect("dc1", service), []*facts.Instance{numbered(service, n)}, confirmed)
			})
		}
		number("s0", 0)
		number("s1", 0)
		c.sidecars(map[string][]string{"a": {"s0", "s1"}, "b": {"s0", "s1"}})
		var callers []*caller
		for _, id := range []string{"a", "b"} {
			cl := callerOf(t, id, sotw, "s0", "s1")
			cl.node = &corev3.Node{Id: id, Cluster: "web"}
			callers = append(callers, cl)
		}
		end := c.calls(callers...)
		number("s1", 1)
		c.told(callers, "s1", 1)
		if sizes := c.server.Sizes(); sizes["listings"] != 1 || sizes["told"] != 2 {
			t.Errorf("kept are %v, want one listing for two streams", sizes)
		}
		c.sidecars(map[string][]string{"a": {"s0"}, "b": {"s0", "s1"}})
		testenv.Eventually(t, 10*time.Second, func() error {
			if n := c.server.Sizes()["listings"]; n != 2 {
				return fmt.Errorf("there are %d listings, want one for each", n)
			}
			return nil
		})
		quiet(t, callers, 200*time.Millisecond)
		before, _ := callers[0].told()
		number("s1", 2)
		c.told(callers[1:], "s1", 2)
		number("s0", 3)
		c.told(callers, "s0", 3)
		if after, _ := callers[0].told(); after != before+1 {
			t.Errorf("%d responses became %d by one change of what it has", before, after)
		}
		if told := c.server.Sizes()["told"]; told != 2 {
			t.Errorf("two streams are told of changes %d times", told)
		}
		end()
		c.forgotten()
	})
}
