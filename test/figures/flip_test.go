//go:build e2e

package figures_test

import (
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/catenary-mesh/catenary/consulwatch"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// TestHowSoonAFlipArrives measures from the start of a write to Consul's own event of it, to the fact in
// the store of a source in this process, and to the endpoints at a client of the program.
func TestHowSoonAFlipArrives(t *testing.T) {
	const flips = 100
	consul := testenv.StartConsul(t)
	consul.RegisterService(testenv.Service{Name: "api", Port: 8080})
	topic := facts.Health("dc1", "api")
	_, store := source(t, consulwatch.Config{API: consul.Config(), Servers: []string{consul.RPCAddr()}, Follow: consulwatch.FollowStream})
	store.Need("test", topic)
	sub := store.Subscribe()
	t.Cleanup(sub.Close)
	applied := make(chan time.Time, flips)
	go func() {
		last := ""
		for {
			select {
			case <-t.Context().Done():
				return
			case <-sub.Bell():
			}
			now := time.Now()
			view, _ := sub.Drain()
			list, _ := view.Instances(topic)
			if len(list) == 0 || len(list[0].Checks) == 0 {
				continue
			}
			if status := string(list[0].Checks[0].Status); status != last {
				last = status
				applied <- now
			}
		}
	}()
	c := testenv.StartCatenary(t, consul.Env(), "--consul-addr", consul.HTTPAddr(), "--consul-servers", consul.RPCAddr(), "--trust-domain", trustDomain)
	testenv.Eventually(t, time.Minute, c.Ready)
	frames := client(t, connect(t, c.GRPCAddr), "web-1", []string{"api"})
	settled(t, c, 1, 1)
	consuls := events(t, consul, "api")

	// warm up until all three follow one flip each, and nothing of the start is left.
	wait := func(from <-chan time.Time, what string) time.Time {
		t.Helper()
		select {
		case at := <-from:
			return at
		case <-time.After(10 * time.Second):
			t.Fatalf("%s did not come within 10 s", what)
			return time.Time{}
		}
	}
	wait(applied, "the first fact")
	wait(frames, "the first endpoints")
	var own, fact, frame, behind times
	pace := time.NewTicker(50 * time.Millisecond)
	defer pace.Stop()
	for i := range flips {
		<-pace.C
		for len(frames) > 0 {
			<-frames // of the start
		}
		began := time.Now()
		consul.SetCheck("api", []string{api.HealthCritical, api.HealthPassing}[i%2])
		event, stored := wait(consuls, "Consul's event"), wait(applied, "the fact")
		own, fact = append(own, event.Sub(began)), append(fact, stored.Sub(began))
		behind = append(behind, stored.Sub(event))
		frame = append(frame, wait(frames, "the endpoints").Sub(began))
	}
	t.Logf("%d flips, from the start of the write: to Consul's own event %v; to the fact %v; to the endpoints at a client %v", flips, own, fact, frame)
	t.Logf("the fact after Consul's own event: %v", behind)
	if d := fact.at(50) - own.at(50); d > time.Millisecond {
		t.Errorf("a fact is there %v after Consul's own event (p50); want 1 ms at most", d)
	}
	if frame.at(50) > generous*10*time.Millisecond || frame.at(99) > generous*30*time.Millisecond {
		t.Errorf("endpoints arrive after %v; want 10 ms and 30 ms, and no machine takes %d times as long", frame, generous)
	}
}
