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
			g.join(l, in, out)
		}
	})
}

// join lets a connection through, unless the gate was shut since it was taken.
func (g *gate) join(l net.Listener, in, out net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.listener != l {
		in.Close()
		out.Close()
		return
	}
	g.conns[in], g.conns[out] = true, true
	g.accepted++
	g.wg.Go(func() { pipe(in, out) })
	g.wg.Go(func() { pipe(out, in) })
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
		g.listener = nil
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
	if took := time.Since(start); took >= dialTime {
		t.Errorf("it took %v to be ready: as long as who says nothing is waited for", took)
	}
	r.eventually(instances(apiHealth, facts.Present, "api:passing"))
	if took := time.Since(start); took > 2*connectTime {
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

// onCluster is a source on three servers, with an HTTP API that does not go away with any of those that are
// killed: what concerns the events is looked at alone. They come from either of the two others.
type onCluster struct {
	*rig
	cluster *testenv.Cluster
	agent   *testenv.Consul
	topics  []facts.Topic
	flips   int
}

func startOnCluster(t *testing.T) *onCluster {
	o := &onCluster{cluster: testenv.StartCluster(t, 3)}
	o.agent = o.cluster.Follower()
	o.topics = registered(o.agent, 5)
	cfg := with(o.agent, "")
	for _, s := range o.cluster.Servers {
		if s != o.agent {
			cfg.Servers = append(cfg.Servers, s.RPCAddr())
		}
	}
	o.rig = run(t, cfg)
	o.store.Need("test", o.topics...)
	o.ready("dc1")
	o.eventually(o.held)
	o.byEvents()
	return o
}

func (o *onCluster) held(v facts.View) error {
	for _, topic := range o.topics {
		if list, state := v.Instances(topic); len(list) != 1 {
			return fmt.Errorf("%s is %s with %d instances", topic, state, len(list))
		}
	}
	return nil
}

// byEvents waits until the first topic is followed by events, and returns the server that they come from.
func (o *onCluster) byEvents() *testenv.Consul {
	o.Helper()
	var teller *testenv.Consul
	testenv.Eventually(o.T, soon, func() error {
		for _, s := range o.cluster.Servers {
			if o.follows(o.topics[0], ModeStreaming, s.RPCAddr()) == nil {
				teller = s
				return nil
			}
		}
		return errors.New("nobody tells events")
	})
	return teller
}

// follower returns a server that is neither the leader nor the agent.
func (o *onCluster) follower() *testenv.Consul {
	leader := o.cluster.Leader()
	for _, s := range o.cluster.Servers {
		if s != leader && s != o.agent {
			return s
		}
	}
	return nil
}

// elected waits until the servers have a leader that is not dead.
func (o *onCluster) elected(dead *testenv.Consul) {
	o.Helper()
	testenv.Eventually(o.T, time.Minute, func() error {
		leader, err := o.agent.Client().Status().Leader()
		if err == nil && (leader == "" || dead != nil && leader == dead.RPCAddr()) {
			err = errors.New("no leader yet")
		}
		return err
	})
}

// converges flips a check, and fails the test unless the flip arrives within 5 s of a moment, or of when a leader that
// was lost again is back.
func (o *onCluster) converges(what string, elected time.Time) {
	o.Helper()
	o.flips++
	status := []string{api.HealthPassing, api.HealthCritical}[o.flips%2]
	testenv.Eventually(o.T, time.Minute, func() error { // the first writes may hit the election, or another
		err := o.agent.TrySetCheck("s00", status)
		if err != nil {
			elected = time.Now()
		}
		return err
	})
	o.eventually(instances(o.topics[0], facts.Present, "s00:"+status))
	took := time.Since(elected)
	o.Logf("%s: converged %v after there was a leader", what, took)
	if took > generous*5*time.Second {
		o.Errorf("%s: it took %v after there was a leader; want 5 s, and no machine takes %d times as long", what, took, generous)
	}
}

func TestServersThatDie(t *testing.T) {
	t.Parallel()
	o := startOnCluster(t)
	defer o.watchful(o.held)()
	for _, death := range []struct {
		what   string
		victim func() *testenv.Consul
	}{
		{"the leader is killed", o.cluster.Leader},
		{"a follower is killed", o.follower},
		{"the server of the events is killed", o.byEvents},
	} {
		v := death.victim()
		if v == o.agent { // it has become the leader
			v = o.byEvents()
		}
		began := time.Now()
		v.Kill()
		o.elected(v)
		elected := time.Now()
		t.Logf("%s: a leader after %v", death.what, elected.Sub(began))
		o.converges(death.what, elected)
		if now := o.byEvents(); now == v {
			t.Errorf("%s: events come from %s, which is dead", death.what, v.RPCAddr())
		}
		v.Restart()
	}
	o.cluster.Restart()
	o.elected(nil)
	o.converges("all are restarted", time.Now())
	o.byEvents()
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
