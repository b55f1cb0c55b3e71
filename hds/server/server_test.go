package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/hds/server"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/snapshot"
)

func TestMostOfTheCheckersDecide(t *testing.T) {
	r := newRig(t, nil)
	r.service("api", tcp(), 8001, 8002)
	second := func(port uint32) corev3.HealthStatus {
		if port == 8002 {
			return corev3.HealthStatus_TIMEOUT
		}
		return corev3.HealthStatus_HEALTHY
	}
	r.checker("a", second)
	r.checker("b", second)
	r.checker("liar", allDown)
	r.verdicts("api", map[int]bool{8001: true, 8002: false})
	testenv.Eventually(t, patience, func() error {
		for _, e := range r.server.Health("API")[0].Endpoints {
			if len(e.Votes) != 3 || e.Probe != "tcp every 100ms" || e.From != "meta" || e.Consul != "passing" || strings.Contains(e.Why, "no quorum") {
				return fmt.Errorf("%+v", e)
			}
		}
		return nil
	})
	r.verdicts("api", map[int]bool{8001: true, 8002: false})
}

func TestAKilledCheckersDutiesGoToOthersAtOnce(t *testing.T) {
	r := newRig(t, nil)
	ports := []int{8001, 8002, 8003, 8004}
	r.service("api", tcp(), ports...)
	checkers := map[*checker]bool{}
	for i := range 4 {
		checkers[r.checker(fmt.Sprint("c", i), allUp)] = true
	}
	r.verdicts("api", map[int]bool{8001: true, 8002: true, 8003: true, 8004: true})
	total := func() int {
		n := 0
		for c := range checkers {
			n += len(c.ports())
		}
		return n
	}
	testenv.Eventually(t, patience, func() error {
		if n := total(); n != 12 {
			return fmt.Errorf("%d duties, want 3 checkers for each of 4 endpoints", n)
		}
		return nil
	})
	for c := range checkers {
		c.stop()
		delete(checkers, c)
		break
	}
	killed := time.Now()
	testenv.Eventually(t, patience, func() error {
		if n := total(); n != 12 {
			return fmt.Errorf("%d duties after one is gone, want 12 again", n)
		}
		return nil
	})
	t.Logf("all duties are with others %v after a checker was gone", time.Since(killed))
	r.verdicts("api", map[int]bool{8001: true, 8002: true, 8003: true, 8004: true})
}

func TestASilentCheckerIsBrokenAndItsDutiesGoToOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.service("api", tcp(), 8001)
	silent := r.checker("a", allUp)
	silent.probes(8001)
	r.verdicts("api", map[int]bool{8001: true})
	silent.set(func() { silent.mute = true })
	began := time.Now()
	silent.probes()
	t.Logf("a silent checker lost its duties after %v", time.Since(began))
	list := r.server.Checkers()
	if len(list) != 1 || list[0].State != "broken" || list[0].Reason == "" {
		t.Errorf("%+v", list)
	}
	r.verdicts("api", map[int]bool{8001: true}) // silence is never down
}

func TestALoneCheckerIsBelievedAndTheLossOfAllIsNotDown(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.service("api", tcp(), 8001)
	c := r.checker("a", allDown)
	r.verdicts("api", map[int]bool{8001: false})
	c.set(func() { c.health = allUp })
	r.verdicts("api", map[int]bool{8001: true})
	c.stop()
	testenv.Eventually(t, patience, func() error {
		if n := len(r.server.Checkers()); n != 0 {
			return fmt.Errorf("%d checkers", n)
		}
		return nil
	})
	testenv.Throughout(t, 500*time.Millisecond, func() error {
		for addr, v := range must(r.store.View().Verdicts(facts.Health("dc1", "api"))) {
			if !v.Up {
				return fmt.Errorf("%s is down although nobody looks", addr)
			}
		}
		return nil
	})
}

func must(v facts.Verdicts, _ bool) facts.Verdicts { return v }

func TestThePredecessorsNameIsServed(t *testing.T) {
	r := newRig(t, nil)
	r.service("api", tcp(), 8001)
	c := r.checkerBy("/envoy.service.discovery.v2.HealthDiscoveryService/StreamHealthCheck", "old", allDown)
	c.probes(8001)
	r.verdicts("api", map[int]bool{8001: false})
}

func TestACheckerThatFetchesHasALease(t *testing.T) {
	r := newRig(t, nil)
	r.service("api", tcp(), 8001)
	client := healthv3.NewHealthDiscoveryServiceClient(r.dial())
	ctx := context.Background()
	spec, err := client.FetchHealthCheck(ctx, hello("f"))
	if err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, patience, func() error {
		spec, err = client.FetchHealthCheck(ctx, reportOn(spec, allDown))
		if status.Code(err) == codes.FailedPrecondition { // a busy machine let the lease end
			spec, err = client.FetchHealthCheck(ctx, hello("f"))
		}
		if err != nil {
			return err
		}
		v := must(r.store.View().Verdicts(facts.Health("dc1", "api")))
		for _, v := range v {
			if !v.Up {
				return nil
			}
		}
		return fmt.Errorf("verdicts %v", v)
	})
	testenv.Eventually(t, patience, func() error {
		if list := r.server.Checkers(); len(list) != 0 {
			return fmt.Errorf("the lease has not ended: %+v", list)
		}
		return nil
	})
	if _, err := client.FetchHealthCheck(ctx, reportOn(spec, allDown)); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a report without a lease: %v", err)
	}
}

func TestAMassFailureFreezesUntilAnOperatorEndsIt(t *testing.T) {
	r := newRig(t, nil)
	r.service("api", tcp(), 8001, 8002, 8003, 8004)
	all := []*checker{r.checker("a", allUp), r.checker("b", allUp), r.checker("c", allUp)}
	up := map[int]bool{8001: true, 8002: true, 8003: true, 8004: true}
	r.verdicts("api", up)
	for _, c := range all {
		c.set(func() { c.health = allDown })
	}
	testenv.Eventually(t, patience, func() error {
		if s := r.server.Health("api"); len(s) != 1 || s[0].Frozen == "" {
			return fmt.Errorf("not frozen: %+v", s)
		}
		return nil
	})
	if f := r.server.Figures(); f.FrozenServices != 1 || f.Freezes != 1 {
		t.Errorf("%+v", f)
	}
	if !r.server.Release("API", "a test") {
		t.Error("there was nothing to release")
	}
	r.verdicts("api", map[int]bool{8001: false, 8002: false, 8003: false, 8004: false})
}

func TestWhatCannotBeProbedIsNamedAndTheRestIs(t *testing.T) {
	r := newRig(t, nil)
	r.service("api", tcp(), 8001)
	r.store.Commit(func(tx *facts.Tx) {
		tx.PutInstance(facts.Health("dc1", "api"), &facts.Instance{
			Node:    facts.Node{Node: "n9", ModifyIndex: 1},
			Service: facts.Service{ID: "api-9", Service: "api", Address: "db.example.com", Port: 80, ModifyIndex: 1},
		})
	})
	c := r.checker("a", allUp)
	c.probes(8001)
	testenv.Eventually(t, patience, func() error {
		s := r.server.Health("api")
		if len(s) != 1 || len(s[0].Refused) != 1 || s[0].Refused[0].Address != "db.example.com:80" {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
}

func TestASpecifierIsSentForChangesOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.service("api", tcp(), 8001)
	c := r.checker("a", allUp)
	c.probes(8001)
	r.verdicts("api", map[int]bool{8001: true})
	var before int
	c.set(func() { before = c.specs })
	testenv.Throughout(t, time.Second, func() error {
		var now int
		c.set(func() { now = c.specs })
		if now != before {
			return fmt.Errorf("%d specifiers without a change", now-before)
		}
		return nil
	})
	r.service("api", tcp(), 8001, 8002)
	c.probes(8001, 8002)
}

func TestDefinitionsOfChecksSayWhatIsProbed(t *testing.T) {
	r := newRig(t, func(c *server.Config) { c.FromChecks = true })
	instance := func(port int, d *facts.CheckDefinition) *facts.Instance {
		id := fmt.Sprint("api-", port)
		return &facts.Instance{
			Node:    facts.Node{Node: "n", Address: "127.0.0.1", ModifyIndex: 1},
			Service: facts.Service{ID: id, Service: "api", Port: port, ModifyIndex: 1},
			Checks:  []facts.Check{{CheckID: "c", ServiceID: id, Status: facts.StatusPassing, Definition: d}},
		}
	}
	topic := facts.Health("dc1", "api")
	r.store.Need("a client", topic)
	defer r.store.Need("a client")
	r.store.Commit(func(tx *facts.Tx) {
		tx.Instances(topic, []*facts.Instance{
			instance(8001, &facts.CheckDefinition{HTTP: "http://127.0.0.1:8001/up", Interval: 2 * time.Second}),
			instance(8002, nil), // as of an agent's
		}, confirmed)
	})
	r.checker("a", allUp).probes(8001)
	s := r.server.Health("api")
	if len(s) != 1 || len(s[0].Endpoints) != 1 || len(s[0].Notes) != 1 {
		t.Fatalf("%+v", s)
	}
	if e := s[0].Endpoints[0]; e.Probe != "http /up :8001 every 2s" || e.From != `check "c"` {
		t.Errorf("%+v", e)
	}
}

func TestMeshEndpointsAreProbedByConnectOnly(t *testing.T) {
	r := newRig(t, nil)
	proxy := func(id string, port int, meta map[string]string) *facts.Instance {
		return &facts.Instance{
			Node: facts.Node{Node: "n", Address: "127.0.0.1", ModifyIndex: 1},
			Service: facts.Service{
				Kind: "connect-proxy", ID: id, Service: "api-proxy", Port: port, Meta: meta, ModifyIndex: 1,
				Proxy: &facts.Proxy{DestinationServiceName: "api"},
			},
		}
	}
	topic := facts.Connect("dc1", "api")
	r.store.Need("a sidecar", topic)
	defer r.store.Need("a sidecar")
	r.store.Commit(func(tx *facts.Tx) {
		tx.Instances(topic, []*facts.Instance{
			proxy("one", 9001, tcp()), proxy("two", 9002, map[string]string{"hds-protocol": "http"}),
		}, confirmed)
	})
	r.checker("a", allDown).probes(9001)
	r.verdicts("api", map[int]bool{9001: false})
	if s := r.server.Health("api"); len(s) != 1 || len(s[0].Refused) != 1 || s[0].Refused[0].Address != "127.0.0.1:9002" {
		t.Errorf("%+v", s)
	}
}

func TestAtAStartWhatIsProbedWaits(t *testing.T) {
	r := newRig(t, func(c *server.Config) { c.StartWithin = 500 * time.Millisecond })
	r.server.Hold()
	r.service("api", tcp(), 8001)
	key := snapshot.EndpointSetKey{Topic: facts.Health("dc1", "api")}
	if v := r.store.View().Read(); v.Awaiting().Datacenter != "dc1" {
		t.Errorf("nothing waits for %v", key)
	}
	testenv.Eventually(t, patience, func() error {
		if r.store.View().Read().Awaiting().Datacenter != "" {
			return fmt.Errorf("sets wait for ever")
		}
		return nil
	})
	r.verdicts("api", map[int]bool{})
}

func TestEveryEndpointHasThreeCheckersHoweverManyThereAre(t *testing.T) {
	r := newRig(t, nil)
	var ports []int
	up := map[int]bool{}
	for i := range 64 {
		ports = append(ports, 8001+i)
		up[8001+i] = true
	}
	r.service("api", tcp(), ports...)
	var checkers []*checker
	for i := range 32 {
		checkers = append(checkers, r.checker(fmt.Sprint("c", i), allUp))
	}
	testenv.Eventually(t, patience, func() error {
		all, most := 0, 0
		for _, c := range checkers {
			n := len(c.ports())
			all, most = all+n, max(most, n)
		}
		if all != 3*len(ports) || most > 8 { // 1.25 times the mean of 6, rounded up
			return fmt.Errorf("%d duties, %d at most; want %d, 8 at most", all, most, 3*len(ports))
		}
		return nil
	})
	r.verdicts("api", up)
}
