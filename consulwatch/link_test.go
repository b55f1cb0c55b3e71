package consulwatch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/proto/subscribe"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// silent is a server that takes connections and says nothing.
func silent(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

func TestSilentServersDoNotHideTheNext(t *testing.T) {
	t.Parallel()
	c := testenv.StartConsul(t)
	c.RegisterService(testenv.Service{Name: "api", Port: 8080})
	cfg := with(c, "")
	cfg.Servers = []string{silent(t), silent(t), c.RPCAddr()}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer s.transport.closeIdle()
	s.link.last = c.RPCAddr() // so that the others come first
	start := time.Now()
	conn, err := s.link.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	conn.conn.Close()
	if took := time.Since(start); took > connectTime || conn.server != c.RPCAddr() {
		t.Errorf("connected to %s after %v", conn.server, took)
	}

	start = time.Now()
	r := run(t, cfg)
	r.store.Need("test", apiHealth)
	testenv.Eventually(t, soon, func() error { return r.follows(apiHealth, ModeStreaming, c.RPCAddr()) })
	if took := time.Since(start); took > 2*connectTime {
		t.Errorf("events came after %v", took)
	}
}

func TestAServerThatFailedIsNotTheFirstToBeTriedAgain(t *testing.T) {
	t.Parallel()
	first, second := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t)), fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
	s, err := New(Config{API: &api.Config{Address: "127.0.0.1:1"}, Servers: []string{first, "tcp://" + second}})
	if err != nil {
		t.Fatal(err)
	}
	s.link.last = second
	_, err = s.link.connect(t.Context())
	if err == nil || !strings.Contains(err.Error(), first) || !strings.Contains(err.Error(), second) {
		t.Errorf("it does not say what is wrong with either: %v", err)
	}
	if s.link.last != second {
		t.Errorf("the last one tried is %s", s.link.last)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.link.connect(over); err == nil || s.link.last != first {
		t.Errorf("%v, and %s was tried last: after the end no more are tried", err, s.link.last)
	}
}

// blocked keeps the agent from naming its servers.
var blocked = testenv.WithHCL(`http_config { block_endpoints = ["/v1/status/peers"] }`)

func TestTheServersAreThoseThatRegisteredThemselves(t *testing.T) {
	t.Parallel()
	c := testenv.StartConsul(t, testenv.WithACL(), blocked)
	c.RegisterService(testenv.Service{Name: "api", Port: 8080})
	r := run(t, with(c, c.NewToken(readAll)))
	r.store.Need("test", apiHealth)
	testenv.Eventually(t, soon, func() error { return r.follows(apiHealth, ModeStreaming, c.RPCAddr()) })

	narrow := run(t, with(c, c.NewToken(`service "api" { policy = "read" } node "node-1" { policy = "read" }`)))
	narrow.store.Need("test", apiHealth)
	narrow.eventually(instances(apiHealth, facts.Present, "api:passing"))
	reason := narrow.polledFor(apiHealth)
	for _, want := range []string{"--consul-servers", "the service consul", "/v1/status/peers", "blocked"} {
		if !strings.Contains(reason, want) {
			t.Errorf("the reason %q does not say %q", reason, want)
		}
	}
}

func TestWhereAServerIs(t *testing.T) {
	t.Parallel()
	for want, row := range map[string]*api.ServiceEntry{
		"10.0.0.1:8300":      {Node: &api.Node{Address: "10.0.0.1"}, Service: &api.AgentService{}},
		"10.0.0.2:7300":      {Node: &api.Node{Address: "10.0.0.1"}, Service: &api.AgentService{Address: "10.0.0.2", Port: 7300}},
		"[2001:db8::1]:8300": {Node: &api.Node{Address: "2001:db8::1"}, Service: &api.AgentService{Port: 8300}},
		"":                   {Node: &api.Node{}, Service: &api.AgentService{Port: 8300}},
	} {
		if got := serverOf(row); got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
}

func TestAServerThatCannotBeOneIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	for server, good := range map[string]bool{
		"10.0.0.1:8300": true, "tls://consul.example:8300": true, "tcp://[::1]:8300": true,
		"10.0.0.1": false, ":8300": false, "http://10.0.0.1:8500": false, "10.0.0.1:": false, "": false,
	} {
		_, err := New(Config{Servers: []string{"10.0.0.9:8300", server}})
		if good != (err == nil) || err != nil && !strings.Contains(err.Error(), "want HOST:PORT") {
			t.Errorf("%q: %v", server, err)
		}
	}
}

// The agent is asked for the servers, but a connection that is lost while it is down, or hangs, is made again
// without.
func TestAnAgentThatIsDownDoesNotKeepEventsAway(t *testing.T) {
	t.Parallel()
	hangs := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	refuses := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for name, test := range map[string]struct {
		options []testenv.ConsulOption
		down    http.HandlerFunc
	}{
		"with ACLs": {[]testenv.ConsulOption{testenv.WithACL()}, refuses}, "without ACLs": {nil, refuses},
		"with ACLs, it hangs": {[]testenv.ConsulOption{testenv.WithACL()}, hangs}, "without ACLs, it hangs": {nil, hangs},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := testenv.StartConsul(t, test.options...)
			c.RegisterService(testenv.Service{Name: "api", Port: 8080})
			g := newGate(t, c.RPCAddr())
			g.open()
			agent := startBetween(t, c)
			agent.names(g.addr)
			cfg := with(c, c.Token())
			cfg.API.Address = agent.server.Listener.Addr().String()
			r := run(t, cfg)
			r.store.Need("test", apiHealth)
			r.ready("dc1")
			testenv.Eventually(t, soon, func() error { return r.follows(apiHealth, ModeStreaming, g.addr) })
			r.source.rights.mu.Lock()
			r.source.rights.last.asked = time.Now().Add(-sameFor) // so that it would be asked again
			r.source.rights.mu.Unlock()
			agent.set(test.down)
			g.shut()
			g.open()
			begin := time.Now()
			c.SetCheck("api", api.HealthCritical)
			r.eventually(instances(apiHealth, facts.Present, "api:critical"))
			testenv.Eventually(t, soon, func() error { return r.follows(apiHealth, ModeStreaming, g.addr) })
			if took := time.Since(begin); took > soon/2 {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// A server that takes connections and drops them is no server: what is wanted is asked for by queries, and
// it is not pestered.
func TestAServerThatDropsConnectionsIsNotReliedOn(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: 200 * time.Millisecond, MaxConnectionAgeGrace: time.Millisecond}))
	subscribe.RegisterStateChangeSubscriptionServer(g, &fakeStreams{
		requests: map[string][]*subscribe.SubscribeRequest{}, streams: map[string]int{},
		say: send(),
	})
	counted := &counting{Listener: greeted{l}}
	go func() { _ = g.Serve(counted) }()
	t.Cleanup(g.Stop)
	f := startFake(t)
	f.set(apiPath, rows(5, "a:passing:80"))
	cfg := f.config()
	cfg.Follow, cfg.Servers = FollowAuto, []string{l.Addr().String()}
	cfg.Limits = impatient()
	cfg.Limits.RetryMin, cfg.Limits.RetryMax = 250*time.Millisecond, 10*time.Second
	r := run(t, cfg)
	r.store.Need("test", apiHealth)
	r.eventually(instances(apiHealth, facts.Present, "a:passing"))
	if reason := r.polledFor(apiHealth); !strings.Contains(reason, "soon after") || !strings.Contains(reason, l.Addr().String()) {
		t.Errorf("the reason is %q", reason)
	}
	f.set(apiPath, rows(6, "a:critical:80"))
	r.eventually(instances(apiHealth, facts.Present, "a:critical"))
	before := counted.n.Load()
	r.throughout(instances(apiHealth, facts.Present, "a:critical"))
	if more := counted.n.Load() - before; more > 3 {
		t.Errorf("%d connections within %v", more, awhile)
	}
}

// counting counts connections.
type counting struct {
	net.Listener
	n atomic.Int64
}

func (l *counting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.n.Add(1)
	}
	return c, err
}

// Certificates may be read again while the connection is being made with those from before.
func TestARenewalWhileConnectingIsNotLost(t *testing.T) {
	t.Parallel()
	streams := startStreams(t)
	streams.say = quiet
	s, err := New(Config{API: &api.Config{Address: "127.0.0.1:1"}, Servers: []string{streams.addr}, Limits: impatient()})
	if err != nil {
		t.Fatal(err)
	}
	dials := make(chan chan struct{})
	s.link.secure = func(ctx context.Context, _ string) (*tls.Config, error) {
		on := make(chan struct{})
		select {
		case dials <- on:
			<-on
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	group.Go(func() { s.link.run(ctx) })
	dial := func(meanwhile func()) {
		t.Helper()
		select {
		case on := <-dials:
			meanwhile()
			close(on)
		case <-time.After(soon):
			t.Fatal("no connection is made")
		}
	}
	nothing := func() {}
	dial(s.link.renew.give) // while the first is made
	dial(nothing)
	var before *connection
	testenv.Eventually(t, soon, func() error {
		if before, _, _ = s.link.get(); before == nil {
			return errors.New("not connected")
		}
		return nil
	})
	s.link.renew.give()
	dial(s.link.renew.give) // while it is renewed
	dial(nothing)
	testenv.Eventually(t, soon, func() error {
		if now, _, _ := s.link.get(); now == nil || now == before {
			return errors.New("the connection is the one from before")
		}
		return nil
	})
}
