package consulwatch

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// gate lets connections through to an address while it is open.
type gate struct {
	t        *testing.T
	to, addr string

	mu       sync.Mutex
	listener net.Listener
	conns    map[net.Conn]bool
	accepted int
	wg       sync.WaitGroup
}

func newGate(t *testing.T, to string) *gate {
	g := &gate{t: t, to: to, addr: fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t)), conns: map[net.Conn]bool{}}
	t.Cleanup(g.shut)
	return g
}

func (g *gate) open() {
	g.t.Helper()
	l, err := net.Listen("tcp", g.addr)
	if err != nil {
		g.t.Fatal(err)
	}
	g.mu.Lock()
	g.listener = l
	g.mu.Unlock()
	g.wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", g.to)
			if err != nil {
				in.Close()
				continue
			}
			g.mu.Lock()
			g.conns[in], g.conns[out] = true, true
			g.accepted++
			g.mu.Unlock()
			g.wg.Go(func() { pipe(in, out) })
			g.wg.Go(func() { pipe(out, in) })
		}
	})
}

func pipe(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	to.Close()
	from.Close()
}

// shut refuses connections and cuts those there are.
func (g *gate) shut() {
	g.mu.Lock()
	if g.listener != nil {
		g.listener.Close()
	}
	for c := range g.conns {
		c.Close()
	}
	clear(g.conns)
	g.mu.Unlock()
	g.wg.Wait()
}

func TestAClosedPortIsPolledUntilItOpens(t *testing.T) {
	t.Parallel()
	c := testenv.StartConsul(t)
	c.RegisterService(testenv.Service{Name: "api", Port: 8080})
	g := newGate(t, c.RPCAddr())
	cfg := with(c, "")
	cfg.Servers, cfg.Limits = []string{g.addr}, Limits{}.withDefaults()
	r := run(t, cfg)
	r.store.Need("test", apiHealth)
	start := time.Now()
	r.ready("dc1")
	r.eventually(instances(apiHealth, facts.Present, "api:passing"))
	polled := func(since time.Time) {
		t.Helper()
		took := time.Since(since)
		if t.Logf("polled after %v", took); took > 5*time.Second {
			t.Errorf("it took %v to serve by polling", took)
		}
	}
	polled(start)
	if reason := r.polledFor(apiHealth); !strings.Contains(reason, g.addr) || !strings.Contains(reason, "refused") {
		t.Errorf("reason %q", reason)
	}
	c.SetCheck("api", api.HealthWarning)
	r.eventually(instances(apiHealth, facts.Present, "api:warning"))
	for range 2 {
		g.open()
		testenv.Eventually(t, soon, func() error { return r.follows(apiHealth, ModeStreaming, g.addr) })
		c.SetCheck("api", api.HealthCritical)
		r.eventually(instances(apiHealth, facts.Present, "api:critical"))
		g.shut()
		start = time.Now()
		r.polledFor(apiHealth)
		c.SetCheck("api", api.HealthPassing)
		r.eventually(instances(apiHealth, facts.Present, "api:passing"))
		polled(start)
	}
}

// A server that says nothing must not hold up what can be polled.
func TestAServerThatSaysNothingIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	c := testenv.StartConsul(t)
	c.RegisterService(testenv.Service{Name: "api", Port: 8080})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cfg := with(c, "")
	cfg.Servers = []string{l.Addr().String()}
	r := run(t, cfg)
	r.store.Need("test", apiHealth)
	start := time.Now()
	r.ready("dc1") // by a query, beside
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("it took %v to be ready", took)
	}
	r.eventually(instances(apiHealth, facts.Present, "api:passing"))
	if took := time.Since(start); took > 6*time.Second {
		t.Errorf("it took %v to serve", took)
	}
}

func TestEventsAloneFailWhereThereAreNone(t *testing.T) {
	t.Parallel()
	c := testenv.StartConsul(t)
	c.RegisterService(testenv.Service{Name: "api", Port: 8080})
	g := newGate(t, c.RPCAddr())
	cfg := with(c, "")
	cfg.Servers, cfg.Follow = []string{g.addr}, FollowStream
	r := run(t, cfg)
	r.store.Need("test", apiHealth)
	r.eventually(failing(apiHealth, true))
	g.open()
	r.eventually(all(instances(apiHealth, facts.Present, "api:passing"), failing(apiHealth, false)))
	g.shut()
	r.eventually(failing(apiHealth, true))
	r.throughout(instances(apiHealth, facts.Present, "api:passing"))
}

func TestAWayToFollowThatIsNone(t *testing.T) {
	t.Parallel()
	if _, err := New(Config{Follow: "push"}); err == nil || !strings.Contains(err.Error(), "auto, stream or poll") {
		t.Error(err)
	}
}

// cluster is a source on three servers, with an HTTP API that does not go away with any of those that
// are killed: what concerns the events is looked at alone.
func TestServersThatDie(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartCluster(t, 3)
	agent := cluster.Follower()
	const n = 5
	var held []func(facts.View) error
	var topics []facts.Topic
	for i := range n {
		name := fmt.Sprintf("s%d", i)
		agent.RegisterService(testenv.Service{Name: name, Port: 8000})
		topics = append(topics, facts.Health("dc1", name))
		held = append(held, func(v facts.View) error {
			if list, state := v.Instances(topics[i]); len(list) != 1 {
				return fmt.Errorf("%s is %s with %d instances", name, state, len(list))
			}
			return nil
		})
	}
	cfg := with(agent, "")
	cfg.Servers = cluster.RPCAddrs()
	r := run(t, cfg)
	r.store.Need("test", topics...)
	r.ready("dc1")
	r.eventually(all(held...))

	watch := r.watchful(all(held...))
	defer watch()
	for round, victim := range []func() *testenv.Consul{
		cluster.Leader,
		func() *testenv.Consul { return other(cluster, agent) },
	} {
		v := victim()
		if v == agent {
			v = other(cluster, agent)
		}
		t.Logf("round %d: %s is killed, events came from %v", round, v.RPCAddr(), r.servers())
		v.Kill()
		began := time.Now()
		testenv.Eventually(t, soon, func() error {
			leader, err := agent.Client().Status().Leader()
			if err == nil && (leader == "" || leader == v.RPCAddr()) {
				err = errors.New("no leader yet")
			}
			return err
		})
		elected := time.Now()
		status := []string{api.HealthCritical, api.HealthPassing}[round]
		testenv.Eventually(t, soon, func() error { // the first write may hit the election
			reg := &api.CatalogRegistration{Node: "node-1", Address: "127.0.0.1", SkipNodeUpdate: true, Checks: api.HealthChecks{{
				Node: "node-1", CheckID: "service:s0", Name: "check of s0", ServiceID: "s0", Status: status,
			}}}
			_, err := agent.Client().Catalog().Register(reg, nil)
			return err
		})
		r.eventually(instances(topics[0], facts.Present, "s0:"+status))
		took := time.Since(elected)
		t.Logf("a leader after %v, converged %v after that", elected.Sub(began), took)
		if took > 5*time.Second {
			t.Errorf("it took %v after a leader was back", took)
		}
		v.Restart()
	}

	t.Log("all are restarted")
	cluster.Restart()
	began := time.Now()
	agent.RegisterService(testenv.Service{Name: "s1", Port: 8000, Status: api.HealthCritical})
	r.eventually(instances(topics[1], facts.Present, "s1:critical"))
	t.Logf("converged %v after a leader was back", time.Since(began))
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

// watchful looks that a condition holds until it is ended.
func (r *rig) watchful(check func(facts.View) error) (end func()) {
	stop, done := make(chan struct{}), make(chan struct{})
	sub := r.store.Subscribe()
	go func() {
		defer close(done)
		defer sub.Close()
		for {
			select {
			case <-sub.Bell():
				view, _ := sub.Drain()
				if err := check(view); err != nil {
					r.Errorf("lost on the way: %v", err)
				}
			case <-stop:
				return
			}
		}
	}()
	return func() {
		close(stop)
		<-done
	}
}

func (r *rig) servers() map[string]bool {
	servers := map[string]bool{}
	for _, s := range r.source.Status() {
		servers[s.Server] = true
	}
	return servers
}

// other returns a server that is neither the agent nor, if possible, the leader.
func other(c *testenv.Cluster, agent *testenv.Consul) *testenv.Consul {
	leader := c.Leader()
	var any *testenv.Consul
	for _, s := range c.Servers {
		if s != agent && (any == nil || s != leader) {
			any = s
		}
	}
	return any
}
