package xds_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/bootstrap"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
	"github.com/catenary-mesh/catenary/xds/session"
)

// deaf opens a stream that asks for everything and reads nothing. What it would be sent is more than
// a connection takes unread.
func (c *control) deaf(ctx context.Context, sotw bool) {
	c.t.Helper()
	var ups []bootstrap.Upstream
	var names []string
	for i := range 900 {
		ups = append(ups, port(fmt.Sprintf("many-%d", i), 1024+i))
		names = append(names, fmt.Sprintf("many-%d.default.dc1.internal.catenary.local", i))
	}
	ups[0].Service, names[0] = "api", apiCluster
	w, err := openWire(ctx, c.dial(grpc.WithInitialWindowSize(64<<10), grpc.WithInitialConnWindowSize(64<<10)), sotw)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, m := range []message{
		{node: declaring(c.t, "deaf", "web", ups...), url: session.ClusterURL},
		{url: session.EndpointURL, names: names, add: names},
		{url: session.ListenerURL},
	} {
		if err := w.send(m); err != nil {
			c.t.Fatal(err)
		}
	}
	testenv.Eventually(c.t, 10*time.Second, func() error {
		if len(c.of("deaf")) != 1 {
			return fmt.Errorf("the client is not connected")
		}
		return nil
	})
}

// flips gives api one instance after the other, and waits each time until the follower has it.
func (c *control) flips(f *follower, n int) {
	c.t.Helper()
	for i := range n {
		address := fmt.Sprintf("10.0.%d.%d", i/250, 1+i%250)
		in := at("api", &testenv.Backend{Port: 1}, "v1", facts.StatusPassing)
		in.Service.Address = address
		c.instances("api", in)
		testenv.Eventually(c.t, 10*time.Second, func() error {
			f.mu.Lock()
			defer f.mu.Unlock()
			if !strings.Contains(string(f.held[session.EndpointURL][apiCluster]), address) {
				return fmt.Errorf("%s is not told of %s", f.node.GetId(), address)
			}
			return nil
		})
	}
}

// of is the state of the streams of an ID.
func (c *control) of(id string) (list []xds.ProxyStatus) {
	for _, p := range c.server.Proxies() {
		if p.ID == id {
			list = append(list, p)
		}
	}
	return list
}

func TestAClientThatNeverReadsHoldsUpNobody(t *testing.T) {
	forms(t, func(t *testing.T, sotw bool) {
		c := startControl(t, nil)
		c.load("api")
		c.closed()
		f, end := c.serve(declaring(t, "good", "web", port("api", 9191)), sotw)
		f.holds(t, session.EndpointURL, 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c.deaf(ctx, sotw)
		goroutines := runtime.NumGoroutine()
		c.flips(f, 100)
		for _, typ := range c.of("deaf")[0].Types {
			if typ.Responses > 1 {
				t.Errorf("%d responses of type %s wait for a client that reads none", typ.Responses, typ.Type)
			}
		}
		if n := runtime.NumGoroutine(); n > goroutines+5 {
			t.Errorf("%d goroutines became %d", goroutines, n)
		}
		cancel()
		end()
		c.forgotten()
	})
}

func TestAClientThatDoesNotReadOrAnswerInTimeIsClosed(t *testing.T) {
	forms(t, func(t *testing.T, sotw bool) {
		c := startControl(t, func(cfg *xds.Config) { cfg.AnswerWithin = 200 * time.Millisecond })
		c.load("api")
		c.closed()
		reading := message{node: declaring(t, "mute", "web", port("api", 9191)), url: session.ClusterURL}
		if st := c.answer(c.dial(), sotw, reading); st.Code() != codes.DeadlineExceeded || !strings.Contains(st.Message(), `"mute"`) {
			t.Errorf("a client that reads and does not answer ends as %v", st)
		}
		c.deaf(t.Context(), sotw) // its connection stays open
		c.forgotten()
	})
}

func TestAStreamWithoutARequestIsClosed(t *testing.T) {
	forms(t, func(t *testing.T, sotw bool) {
		c := startControl(t, func(cfg *xds.Config) { cfg.FirstRequestWithin = 50 * time.Millisecond })
		st := c.answer(c.dial(), sotw)
		if st.Code() != codes.DeadlineExceeded || !strings.Contains(st.Message(), "no request within 50ms") {
			t.Errorf("a stream without a request ends as %v", st)
		}
	})
}

// refuseAll refuses whatever comes, until the stream ends.
func refuseAll(w wire, node *corev3.Node, count *atomic.Int64) {
	names := map[string][]string{
		session.EndpointURL: {apiCluster, strings.Replace(apiCluster, "api", "db", 1)}, session.RouteURL: {"api", "db"},
	}
	for _, t := range session.Types() {
		_ = w.send(message{node: node, url: t.URL, names: names[t.URL], add: names[t.URL]}) // recv says why
	}
	for {
		r, err := w.recv()
		if err != nil {
			return
		}
		count.Add(1)
		_ = w.send(message{url: r.url, nonce: r.nonce, names: names[r.url], refuse: "I do not like it"}) // as above
	}
}

func TestAClientThatRefusesEverythingIsToldNothingTwice(t *testing.T) {
	forms(t, func(t *testing.T, sotw bool) {
		c := startControl(t, nil)
		c.load("api", "db")
		c.closed()
		c.entries(chain.KindServiceDefaults, httpDefaults("api"), httpDefaults("db"))
		ups := []bootstrap.Upstream{port("api", 9191), port("db", 9192)}
		good, end := c.serve(declaring(t, "good", "web", ups...), sotw)
		good.holds(t, session.RouteURL, 2)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w, err := openWire(ctx, c.dial(), sotw)
		if err != nil {
			t.Fatal(err)
		}
		var count atomic.Int64
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			refuseAll(w, declaring(t, "no", "web", ups...), &count)
		}()
		c.proxy("no", xds.StateNacked)
		c.flips(good, 100)
		c.proxy("good", xds.StateSynced)
		cancel()
		<-ended
		// Of each type: both at once, then each alone. Then once for each change.
		if n, most := count.Load(), int64(4*3+100); n > most {
			t.Errorf("%d responses, want at most %d", n, most)
		}
		end()
		c.forgotten()
	})
}

// lines counts what is logged.
type lines struct{ n atomic.Int64 }

func (l *lines) Write(p []byte) (int, error) {
	l.n.Add(1)
	return len(p), nil
}

func TestRequestsOfNoUseAreIgnored(t *testing.T) {
	forms(t, func(t *testing.T, sotw bool) {
		logged := &lines{}
		c := startControl(t, func(cfg *xds.Config) { cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: logged}) })
		c.load("api")
		c.closed()
		w, err := openWire(t.Context(), c.dial(), sotw)
		if err != nil {
			t.Fatal(err)
		}
		send := func(m message) {
			if err := w.send(m); err != nil {
				t.Fatal(err)
			}
		}
		send(message{node: declaring(t, "web-1", "web", port("api", 9191)), url: "type.googleapis.com/made.up"})
		for i := range 500 {
			send(message{url: fmt.Sprintf("type.googleapis.com/made.up.%d", i), refuse: "no"})
			send(message{url: session.RouteURL, nonce: "made up", refuse: "no"})
			send(message{node: declaring(t, "other", "other"), url: session.EndpointURL})
		}
		send(message{node: &corev3.Node{}, url: session.ClusterURL})
		for {
			r, err := w.recv()
			if err != nil {
				t.Fatal(err)
			}
			if r.url == session.ClusterURL && len(r.bodies) == 1 {
				break
			}
		}
		if p := c.of("web-1"); len(p) != 1 || p[0].Service != "web" || len(c.of("other")) > 0 {
			t.Errorf("who the client is changed: %+v", c.server.Proxies())
		}
		if n := logged.n.Load(); n > 2 {
			t.Errorf("%d lines are logged", n)
		}
	})
}

func TestStreamsThatComeAndGoLeaveNothing(t *testing.T) {
	c := startControl(t, nil)
	c.load("api", "bad")
	c.closed()
	c.entries(chain.KindServiceResolver, &chain.ServiceResolver{
		Header: chain.Header{Name: "bad"}, Redirect: &chain.Redirect{Service: "api", ServiceSubset: "nowhere"},
	})
	conn := c.dial()
	once := func(i int) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w, err := openWire(ctx, conn, i%2 == 0)
		if err != nil {
			t.Fatal(err)
		}
		node := declaring(t, fmt.Sprintf("web-%d", i%7), "web", port("api", 1024+i), port("bad", 9192))
		if err := w.send(message{node: node, url: session.ListenerURL}); err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 { // others do not wait for anything
			if _, err := w.recv(); err != nil {
				t.Fatal(err)
			}
		}
	}
	once(0)
	c.forgotten()
	goroutines := runtime.NumGoroutine()
	for i := range 2000 {
		once(i)
	}
	c.forgotten()
	testenv.Eventually(t, 10*time.Second, func() error {
		if n := runtime.NumGoroutine(); n > goroutines {
			return fmt.Errorf("%d goroutines became %d", goroutines, n)
		}
		return nil
	})
	testenv.Eventually(t, 10*time.Second, func() error {
		if list := c.server.Problems(); len(list) > 0 {
			return fmt.Errorf("chains are kept that nobody uses: %+v", list)
		}
		return nil
	})
}

func TestAStreamThatTheClientEndsInOrderEndsWell(t *testing.T) {
	forms(t, func(t *testing.T, sotw bool) {
		c := startControl(t, nil)
		c.load("api")
		c.closed()
		w, err := openWire(t.Context(), c.dial(), sotw)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.send(message{node: declaring(t, "web-1", "web", port("api", 9191)), url: session.ClusterURL}); err != nil {
			t.Fatal(err)
		}
		if err := w.close(); err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = w.recv()
		}
		if err.Error() != "EOF" {
			t.Errorf("the stream ends as %v", err)
		}
		c.forgotten()
	})
}

func TestTheEndOfTheServerSendsStreamsElsewhere(t *testing.T) {
	forms(t, func(t *testing.T, sotw bool) {
		c := startControl(t, nil)
		c.load("api")
		c.closed()
		w, err := openWire(t.Context(), c.dial(), sotw)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.send(message{node: declaring(t, "web-1", "web", port("api", 9191)), url: session.ClusterURL}); err != nil {
			t.Fatal(err)
		}
		silent, err := openWire(t.Context(), c.dial(), sotw)
		if err != nil {
			t.Fatal(err)
		}
		c.deaf(t.Context(), sotw)
		testenv.Eventually(t, 10*time.Second, func() error {
			if n := len(c.server.Proxies()); n != 2 {
				return fmt.Errorf("%d clients are connected", n)
			}
			return nil
		})
		c.drain()
		c.forgotten()
		for name, w := range map[string]wire{"followed": w, "silent": silent} {
			var err error
			for err == nil {
				_, err = w.recv()
			}
			if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "connect to another") {
				t.Errorf("the %s stream ends as %v", name, err)
			}
		}
	})
}
