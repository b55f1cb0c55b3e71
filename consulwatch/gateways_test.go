package consulwatch

import (
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

func gateway(name, id string, port int) testenv.Service {
	return testenv.Service{Name: name, ID: id, Node: "node-" + id, Port: port, Kind: api.ServiceKindMeshGateway}
}

// Mesh gateways have whatever name the operator gives them, and several names are one set.
func TestMeshGatewaysAreFollowedWhateverTheirName(t *testing.T) {
	eachWay(t, func(t *testing.T, how Follow) {
		c := testenv.StartConsul(t)
		c.RegisterService(testenv.Service{Name: "api", Port: 8080})
		cfg := with(c, "")
		cfg.Follow, cfg.Limits = how, impatient()
		cfg.Limits.Linger = 200 * time.Millisecond
		r := run(t, cfg)
		r.ready("dc1")
		if _, ok := r.watches(facts.Gateways("dc1")); ok {
			t.Error("gateways are followed that nobody needs")
		}
		r.store.Need("test", facts.Gateways("dc1"))
		r.eventually(instances(facts.Gateways("dc1"), facts.Absent))
		c.RegisterService(gateway("mesh-gateway", "gw-1", 8443))
		r.eventually(instances(facts.Gateways("dc1"), facts.Present, "gw-1:passing"))
		c.RegisterService(gateway("edge", "gw-2", 8444))
		c.RegisterService(gateway("mesh-gateway", "gw-3", 8445))
		r.eventually(instances(facts.Gateways("dc1"), facts.Present, "gw-1:passing", "gw-2:passing", "gw-3:passing"))
		c.SetCheck("gw-2", api.HealthCritical)
		r.eventually(instances(facts.Gateways("dc1"), facts.Present, "gw-1:passing", "gw-2:critical", "gw-3:passing"))
		c.Deregister("gw-1")
		r.eventually(instances(facts.Gateways("dc1"), facts.Present, "gw-2:critical", "gw-3:passing"))
		c.Deregister("gw-2")
		c.Deregister("gw-3")
		r.eventually(instances(facts.Gateways("dc1"), facts.Absent))
		c.RegisterService(gateway("edge", "gw-4", 8446))
		r.eventually(instances(facts.Gateways("dc1"), facts.Present, "gw-4:passing"))
		r.store.Need("test")
		testenv.Eventually(t, soon, func() error {
			for _, topic := range []facts.Topic{facts.Gateways("dc1"), facts.Health("dc1", "edge")} {
				if s, ok := r.watches(topic); ok {
					return fmt.Errorf("%s is still followed: %+v", topic, s)
				}
			}
			return nil
		})
	})
}

// watches returns the status of a topic, if it is followed.
func (r *rig) watches(topic facts.Topic) (Status, bool) {
	for _, s := range r.source.Status() {
		if s.Topic == topic {
			return s, true
		}
	}
	return Status{}, false
}

func TestHiddenMeshGatewaysAreKept(t *testing.T) {
	eachWay(t, func(t *testing.T, how Follow) {
		c := testenv.StartConsul(t, testenv.WithACL())
		c.RegisterService(gateway("mesh-gateway", "gw-1", 8443))
		c.RegisterService(gateway("edge", "gw-2", 8444))
		token := c.NewToken(readAll)
		cfg := with(c, token)
		cfg.Follow, cfg.Limits = how, impatient()
		cfg.Limits.Wait = time.Second
		r := run(t, cfg)
		r.ready("dc1")
		r.store.Need("test", facts.Gateways("dc1"))
		both := instances(facts.Gateways("dc1"), facts.Present, "gw-1:passing", "gw-2:passing")
		r.eventually(both)
		for name, rules := range map[string]string{
			"one":        readAll + ` service "edge" { policy = "deny" }`,
			"everything": ``,
		} {
			t.Run(name, func(t *testing.T) {
				end := r.watchful(func(v facts.View) error {
					if list, state := v.Instances(facts.Gateways("dc1")); len(list) != 2 {
						return fmt.Errorf("the gateways are %s: %v", state, list)
					}
					return nil
				})
				defer end()
				c.SetPolicy(token, rules)
				wakes := 0
				testenv.Eventually(t, soon, func() error {
					wakes++
					c.RegisterService(testenv.Service{Name: fmt.Sprintf("other-%d", wakes)})
					if s, _ := r.watches(facts.Gateways("dc1")); s.Hidden == "" {
						return fmt.Errorf("nobody says that gateways are hidden: %+v", s)
					}
					return nil
				})
				c.SetPolicy(token, readAll)
				r.calm()
				r.eventually(both)
			})
		}
		c.Deregister("gw-2")
		r.eventually(instances(facts.Gateways("dc1"), facts.Present, "gw-1:passing"))
	})
}

func TestMeshGatewaysOfAnotherDatacenter(t *testing.T) {
	t.Parallel()
	near := testenv.StartConsul(t)
	far := testenv.StartConsul(t, testenv.WithDatacenter("dc2"), testenv.WithWAN(near))
	far.RegisterService(gateway("mesh-gateway", "gw-1", 8443))
	near.RegisterService(gateway("mesh-gateway", "gw-2", 8443))
	r := run(t, with(near, ""))
	r.store.Need("test", facts.Gateways("dc2"))
	r.eventually(instances(facts.Gateways("dc2"), facts.Present, "gw-1:passing"))
}
