package consulwatch

import (
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// What a cluster peer exports is followed as what is here, by its peer's name: the services of that name
// here are others.
func TestServicesOfAClusterPeerAreFollowed(t *testing.T) {
	t.Parallel()
	east := testenv.StartConsul(t, testenv.WithPeering())
	west := testenv.StartConsul(t, testenv.WithPeering())
	west.PeerWith(east, "east", "west")
	east.RegisterService(testenv.Service{Name: "api", ID: "api-east", Port: 8080})
	east.RegisterService(gateway("mesh-gateway", "gw-1", 8443)) // what imports a service dials gateways
	east.RegisterService(testenv.Service{
		Name: "api-sidecar-proxy", Kind: api.ServiceKindConnectProxy, Port: 21000,
		Proxy: &api.AgentServiceConnectProxyConfig{DestinationServiceName: "api"},
	})
	west.RegisterService(testenv.Service{Name: "api", ID: "api-west", Port: 8080})
	east.WriteEntry(`{"Kind":"exported-services","Name":"default","Services":[{"Name":"api","Consumers":[{"Peer":"west"}]}]}`)
	health, connect := facts.HealthOfPeer("east", "api"), facts.ConnectOfPeer("east", "api")
	for _, how := range []Follow{FollowStream, FollowPoll} {
		t.Run(string(how), func(t *testing.T) {
			cfg := with(west, "")
			cfg.Follow = how
			r := run(t, cfg)
			r.store.Need("test", health, connect, apiHealth, facts.HealthOfPeer("east", "ghost"))
			r.eventually(all(instances(health, facts.Present, "api-east:passing"),
				instances(connect, facts.Present, "api-sidecar-proxy-instance-0:passing"),
				instances(apiHealth, facts.Present, "api-west:passing"), instances(facts.HealthOfPeer("east", "ghost"), facts.Absent)))
			if how == FollowStream {
				for _, topic := range []facts.Topic{health, connect} {
					testenv.Eventually(t, soon, func() error { return r.follows(topic, ModeStreaming, west.RPCAddr()) })
				}
			}
			east.SetCheck("api-east", api.HealthCritical)
			r.eventually(instances(health, facts.Present, "api-east:critical"))
			east.SetCheck("api-east", api.HealthPassing)
			r.eventually(instances(health, facts.Present, "api-east:passing"))
			east.RegisterService(testenv.Service{Name: "api", ID: "api-second", Port: 8081})
			r.eventually(instances(health, facts.Present, "api-east:passing", "api-second:passing"))
			east.Deregister("api-second")
			r.eventually(all(instances(health, facts.Present, "api-east:passing"), instances(apiHealth, facts.Present, "api-west:passing")))
		})
	}
}
