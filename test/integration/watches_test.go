package integration_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/catenary-mesh/catenary/internal/admin"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// What is followed is told by each topic in the API, and together in the metrics.
func TestWhatIsFollowedIsTold(t *testing.T) {
	t.Parallel()
	f := startFleet(t, false)
	f.register("api", testenv.StartBackend(t, "v1"))
	_, up := port(t, "api")
	f.envoy("web", up).WaitReady()
	testenv.Eventually(t, patience, func() error {
		var list []admin.Watch
		if err := f.catenary.API("/api/v1/watches", &list); err != nil {
			return err
		}
		byTopic := map[string]admin.Watch{}
		for _, w := range list {
			byTopic[w.Topic] = w
		}
		for topic, mode := range map[string]string{
			"entries/service-intentions": "streaming", "entries/mesh": "streaming", "entries/proxy-defaults": "blocking",
			"roots": "blocking", "default-intention": "asking", "health/dc1/api": "streaming",
		} {
			if w := byTopic[topic]; w.Mode != mode || w.State != admin.WatchCurrent || w.AgeSeconds < 0 {
				return fmt.Errorf("%s should be %s and current: %+v", topic, mode, w)
			}
		}
		return told(f.catenary.Metrics(), len(list), byTopic["health/dc1/api"])
	})
}

// told holds the metrics against what the API says of the watches.
func told(samples map[string]float64, watches int, api admin.Watch) error {
	counted := 0.0
	for name, n := range samples {
		if strings.HasPrefix(name, "catenary_source_watches{") {
			counted += n
		}
		if strings.Contains(name, "api") {
			return fmt.Errorf("%s names a service", name)
		}
	}
	health := samples[`catenary_source_watches{mode="streaming",state="current",topic="health"}`]
	server := samples[fmt.Sprintf(`catenary_source_server_watches{server=%q}`, api.Server)]
	age, heard := samples[`catenary_source_watch_age_seconds{mode="blocking",topic="roots"}`]
	switch {
	case int(counted) != watches:
		return fmt.Errorf("%v of %d watches are measured", counted, watches)
	case health != 1 || samples[`catenary_source_watch_needs{topic="health"}`] != float64(api.Needs):
		return fmt.Errorf("the metrics say of health: %v watches, %+v", health, api)
	case server < 5:
		return fmt.Errorf("%v watches are on the server %s", server, api.Server)
	case !heard || age < 0 || samples[`catenary_source_watch_index{topic="roots"}`] == 0:
		return errors.New("roots have no age or no index")
	}
	return nil
}

// A Consul without a mesh has no roots to follow, and nobody is alarmed by that.
func TestAConsulWithoutAMeshAlarmsNobody(t *testing.T) {
	t.Parallel()
	consul := testenv.StartConsul(t, testenv.WithoutMesh())
	c := testenv.StartCatenary(t, consul.Env(), "--consul-addr", consul.HTTPAddr())
	testenv.Eventually(t, patience, c.Ready)
	testenv.Eventually(t, patience, func() error {
		r := testenv.Run(t, nil, "watches", "--admin-addr", c.AdminAddr)
		if r.Code != 0 || !strings.Contains(r.Stdout, " off ") || !strings.Contains(r.Stdout, "connect.enabled") {
			return fmt.Errorf("catenary watches: exit %d: %s%s", r.Code, r.Stdout, r.Stderr)
		}
		var list []admin.Problem
		if err := c.API("/api/v1/problems", &list); err != nil || len(list) > 0 {
			return fmt.Errorf("problems: %v, %w", list, err)
		}
		return nil
	})
}
