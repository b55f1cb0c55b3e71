package fleet_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/test/load/catalog"
	"github.com/catenary-mesh/catenary/test/load/fleet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// seeded is a Consul with a small catalog.
type seeded struct {
	*testenv.Consul
	api  *catalog.Consul
	size catalog.Config
}

func seed(t *testing.T) *seeded {
	s := &seeded{
		Consul: testenv.StartConsul(t),
		size:   catalog.Config{Services: 6, Instances: 3, Sidecars: 10, Upstreams: 4, Apps: 5},
	}
	s.api = catalog.NewConsul("http://"+s.HTTPAddr(), "")
	t.Cleanup(s.api.Close)
	if n, err := s.api.Seed(t.Context(), s.size); err != nil || n != 2*(6*3+10) {
		t.Fatalf("%d registrations: %v", n, err)
	}
	return s
}

// config is a short run against a server.
func (s *seeded) config(address string) fleet.Config {
	watched := catalog.Watched()
	return fleet.Config{
		Address: address, Streams: s.size.Sidecars, Clusters: s.size.Upstreams, Node: s.size.Node,
		FullTimeout: 30 * time.Second, FlipTimeout: 20 * time.Second,
		Settle: 100 * time.Millisecond, Gap: 10 * time.Millisecond,
		Watched: fleet.Endpoint{Service: watched.Service(), Address: watched.Address(), Port: watched.Port()},
		Flip: func(ctx context.Context, healthy bool) error {
			return s.api.SetHealth(ctx, watched, healthy)
		},
		Flips: 2,
	}
}

func measure(t *testing.T, c fleet.Config) *fleet.Result {
	t.Helper()
	r, err := fleet.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if r.Failed() || r.Full != 10 || r.Flips.Last.N != 2 || r.ClustersPerStream != 4 || r.EndpointsPerStream != 12 {
		short := *r
		short.Endpoints = nil
		t.Errorf("not all streams got what they are owed: %+v", short)
	}
	return r
}

func TestConsulAndCatenaryGiveEveryStreamTheSame(t *testing.T) {
	s := seed(t)
	catenary := testenv.StartCatenary(t, s.Env(), "--consul-addr", s.HTTPAddr())
	testenv.Eventually(t, 10*time.Second, catenary.Ready)

	theirs := measure(t, s.config(s.GRPCAddr()))
	c := s.config(catenary.GRPCAddr)
	c.Flips, c.Reconnects, c.Resume, c.Slow = 2, 1, true, 2
	ours := measure(t, c)

	if d := fleet.Differences(theirs.Endpoints, ours.Endpoints, 3); len(d) > 0 {
		t.Errorf("Consul and catenary differ:\n%s", strings.Join(d, "\n"))
	}
	if got, want := theirs.Endpoints["app-0-0-sidecar-proxy"], "svc-0 10.1.0.1:30000 healthy"; !strings.Contains(fmt.Sprint(got), want) {
		t.Errorf("a sidecar's endpoints are %q, which lack %s", got, want)
	}
	if ours.Resume == nil || ours.Resume.MaxBytes > 1024 || ours.Resume.Resources > 0 {
		t.Errorf("streams that come back with their versions are sent %+v", ours.Resume)
	}
	if d := cmp.Diff([]int{10}, []int{ours.Reconnects[0].Full}); d != "" {
		t.Errorf("streams that came back: %s", d)
	}
	if ours.Slow == nil || ours.Slow.CaughtUp != 2 {
		t.Errorf("streams that did not read: %+v", ours.Slow)
	}
	if ours.Flips.Messages != 1 {
		t.Errorf("%v messages for a flip", ours.Flips.Messages)
	}
}

func TestAServerThatIsNotThereFailsEveryStream(t *testing.T) {
	c := (&seeded{size: catalog.Config{Sidecars: 3, Services: 1, Upstreams: 1}}).config(fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t)))
	c.Warmup, c.Flips = 0, 0
	c.Flip = func(context.Context, bool) error { return nil }
	r, err := fleet.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Failed() || r.Full != 0 || r.StreamErrors != 3 || !strings.Contains(fmt.Sprint(r.Errors), "refused") {
		t.Errorf("%+v", r)
	}
}

func TestARunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := (&seeded{size: catalog.Config{Sidecars: 3}}).config(fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t)))
	if _, err := fleet.Run(ctx, c); err == nil {
		t.Error("it does not say that it was ended")
	}
}
