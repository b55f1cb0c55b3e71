package consulwatch

import (
	"fmt"
	"testing"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// follows checks how a topic is followed.
func (r *rig) follows(topic facts.Topic, mode Mode, server string) error {
	for _, s := range r.source.Status() {
		if s.Topic == topic && s.Mode == mode && s.Server == server {
			return nil
		}
	}
	return fmt.Errorf("%s is not %s by %q: %+v", topic, mode, server, r.source.Status())
}

func TestInstancesAreFollowedByEvents(t *testing.T) {
	t.Parallel()
	c := testenv.StartConsul(t)
	c.RegisterService(testenv.Service{Name: "api", Port: 8080})
	r := run(t, with(c, ""))
	r.store.Need("test", apiHealth, apiConnect)
	for _, topic := range []facts.Topic{apiHealth, apiConnect} {
		testenv.Eventually(t, soon, func() error { return r.follows(topic, ModeStreaming, c.RPCAddr()) })
	}
	r.eventually(all(instances(apiHealth, facts.Present, "api:passing"), instances(apiConnect, facts.Absent)))
}
