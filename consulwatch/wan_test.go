package consulwatch

import (
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// The servers of the own datacenter pass on what is asked of another.
func TestAnotherDatacenterIsFollowedByEvents(t *testing.T) {
	t.Parallel()
	near := testenv.StartConsul(t)
	far := testenv.StartConsul(t, testenv.WithDatacenter("dc2"), testenv.WithWAN(near))
	far.RegisterService(testenv.Service{Name: "api", Port: 8080})
	r := run(t, with(near, ""))
	topic := facts.Health("dc2", "api")
	r.store.Need("test", topic)
	r.eventually(all(instances(topic, facts.Present, "api:passing"), serviceIs("dc2", "api", facts.Present)))
	testenv.Eventually(t, 2*soon, func() error { return r.follows(topic, ModeStreaming, near.RPCAddr()) })
	far.SetCheck("api", api.HealthCritical)
	r.eventually(instances(topic, facts.Present, "api:critical"))

	far.Stop()
	near.RegisterService(testenv.Service{Name: "web", Port: 8081})
	r.eventually(serviceIs("dc1", "web", facts.Present))
	r.throughout(instances(topic, facts.Present, "api:critical"))
}
