package consulwatch

import (
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// readAll are the rules a source needs.
const readAll = `service_prefix "" { policy = "read" } node_prefix "" { policy = "read" }`

// shop is a Consul with ACLs, two services and a splitter.
func shop(t *testing.T) *testenv.Consul {
	c := testenv.StartConsul(t, testenv.WithACL())
	c.RegisterService(testenv.Service{Name: "api", Port: 8080})
	c.RegisterService(testenv.Service{Name: "web", Port: 8081})
	c.RegisterService(testenv.Service{
		Name: "api-sidecar-proxy", Kind: api.ServiceKindConnectProxy, Port: 21000,
		Proxy: &api.AgentServiceConnectProxyConfig{DestinationServiceName: "api"},
	})
	writeSplitter(c, `{"Weight":100}`)
	return c
}

// wakeSplitters ends the queries that wait for a change of the splitters.
func wakeSplitters(c *testenv.Consul, n int) {
	c.WriteEntry(`{"Kind":"service-defaults","Name":"web","Protocol":"http"}`)
	c.WriteEntry(fmt.Sprintf(`{"Kind":"service-splitter","Name":"web","Splits":[{"Weight":100}],"Meta":{"n":"%d"}}`, n))
}

var apiConnect = facts.Connect("dc1", "api")

func TestATokenThatLosesItsRightsTakesNothingAway(t *testing.T) {
	t.Parallel()
	c := shop(t)
	token := c.NewToken(readAll)
	cfg := with(c, token)
	cfg.Limits = impatient()
	cfg.Limits.Wait = time.Second // the streaming backend tells a loss of rights only when the wait is over
	r := run(t, cfg)
	r.store.Need("test", apiHealth, apiConnect)
	r.ready("dc1")
	r.eventually(all(instances(apiHealth, facts.Present, "api:passing"), instances(apiConnect, facts.Present, "api-sidecar-proxy:passing"),
		entryIs(chain.KindServiceSplitter, "api", facts.Present)))

	c.SetPolicy(token, "")
	wakes := 0
	r.eventually(func(v facts.View) error { // until the policy is in force for those who wait
		wakes++
		c.RegisterService(testenv.Service{Name: fmt.Sprintf("db-%d", wakes)})
		wakeSplitters(c, wakes)
		return all(instances(apiHealth, facts.Suspect, "api:passing"),
			instances(apiConnect, facts.Suspect, "api-sidecar-proxy:passing"), serviceIs("dc1", "api", facts.Suspect),
			entryIs(chain.KindServiceSplitter, "api", facts.Suspect))(v)
	})
	r.throughout(all(instances(apiHealth, facts.Suspect, "api:passing"), serviceIs("dc1", "api", facts.Suspect),
		instances(apiConnect, facts.Suspect, "api-sidecar-proxy:passing"), entryIs(chain.KindServiceSplitter, "api", facts.Suspect)))

	c.Deregister("web") // unseen
	c.SetPolicy(token, readAll)
	r.eventually(all(instances(apiHealth, facts.Present, "api:passing"), serviceIs("dc1", "api", facts.Present), serviceIs("dc1", "web", facts.Absent),
		entryIs(chain.KindServiceSplitter, "api", facts.Present)))

	c.DeleteEntry("service-splitter", "api")
	c.Deregister("api")
	c.Deregister("api-sidecar-proxy")
	r.eventually(all(instances(apiHealth, facts.Absent), instances(apiConnect, facts.Absent), entryIs(chain.KindServiceSplitter, "api", facts.Absent)))
}

func TestADeletedTokenTakesNothingAway(t *testing.T) {
	t.Parallel()
	c := shop(t)
	token := c.NewToken(readAll)
	cfg := with(c, token)
	cfg.Limits = impatient()
	cfg.Limits.Wait = time.Second
	r := run(t, cfg)
	r.store.Need("test", apiHealth)
	r.ready("dc1")
	r.eventually(all(instances(apiHealth, facts.Present, "api:passing"), serviceIs("dc1", "web", facts.Present), entryIs(chain.KindServiceSplitter, "api", facts.Present)))
	c.DeleteToken(token)
	wakeSplitters(c, 1)
	c.SetCheck("api", api.HealthCritical)
	r.eventually(all(failing(apiHealth, true), failing(facts.Entries(chain.KindServiceSplitter), true)))
	r.throughout(func(v facts.View) error { // present, or suspect after the streaming backend's last word
		if list, state := v.Instances(apiHealth); len(list) != 1 {
			return fmt.Errorf("the instances are %s: %v", state, list)
		}
		return all(serviceIs("dc1", "web", facts.Present), entryIs(chain.KindServiceSplitter, "api", facts.Present))(v)
	})
}

func TestAStartWithoutRightsKnowsNothing(t *testing.T) {
	t.Parallel()
	c := shop(t)
	weak := c.NewToken("")
	for name, token := range map[string]string{"without a token": "", "the anonymous token": "anonymous", "a token without rights": weak} {
		t.Run(name, func(t *testing.T) {
			r := run(t, with(c, token))
			r.store.Need("test", apiHealth, apiConnect)
			r.eventually(func(v facts.View) error {
				for _, topic := range []facts.Topic{facts.Services("dc1"), facts.Entries(chain.KindServiceSplitter), apiHealth} {
					if s := v.Topic(topic); !s.Read {
						return fmt.Errorf("%s is not read: %s", topic, s.Failure)
					}
				}
				return nil
			})
			r.eventually(failing(apiConnect, true))
			r.throughout(all(instances(apiHealth, facts.Unknown), instances(apiConnect, facts.Unknown), serviceIs("dc1", "api", facts.Unknown),
				serviceIs("dc1", "ghost", facts.Unknown), entryIs(chain.KindServiceSplitter, "api", facts.Unknown)))
			if ok, _ := r.store.View().Ready("dc1"); ok {
				t.Error("ready")
			}
		})
	}
	t.Run("until the rights come", func(t *testing.T) {
		token := c.NewToken("")
		r := run(t, with(c, token))
		r.store.Need("test", apiHealth, apiConnect, facts.Health("dc1", "ghost"))
		r.eventually(failing(apiConnect, true))
		c.SetPolicy(token, readAll)
		r.ready("dc1")
		r.eventually(all(instances(apiHealth, facts.Present, "api:passing"), instances(apiConnect, facts.Present, "api-sidecar-proxy:passing"),
			serviceIs("dc1", "ghost", facts.Absent), instances(facts.Health("dc1", "ghost"), facts.Absent)))
	})
}
