package xds_test

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/catenary-mesh/catenary/internal/bootstrap"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds/session"
)

// caller is a client that is light enough to have a thousand of: it asks for what it is told to, answers
// whatever comes, and keeps counts.
type caller struct {
	node    *corev3.Node
	sotw    bool
	asks    []message
	refuse  string                         // it answers so; empty for ACK
	numbers func(service string, n uint32) // is called with what each endpoint set says

	mu        sync.Mutex // guards all below
	responses map[string]int
	bytes     int                          // of the responses, but for their nonces: those are counters
	last      map[string]uint32            // number by service
	versions  map[string]map[string]string // by URL and name (delta)
	wrong     error
}

// reply is one response.
type reply struct {
	url, nonce, version string
	size                int
	bodies              [][]byte
	versions            map[string]string
}

func (w wire) reply() (reply, error) {
	if w.sotw != nil {
		m, err := w.sotw.Recv()
		r := reply{url: m.GetTypeUrl(), nonce: m.GetNonce(), version: m.GetVersionInfo(), size: proto.Size(m) - len(m.GetNonce())}
		for _, res := range m.GetResources() {
			r.bodies = append(r.bodies, res.GetValue())
		}
		return r, err
	}
	m, err := w.delta.Recv()
	r := reply{url: m.GetTypeUrl(), nonce: m.GetNonce(), size: proto.Size(m) - len(m.GetNonce()), versions: map[string]string{}}
	for _, res := range m.GetResources() {
		r.bodies = append(r.bodies, res.GetResource().GetValue())
		r.versions[res.GetName()] = res.GetVersion()
	}
	return r, err
}

// callerOf is a client of the service web with upstreams, which asks for all that an Envoy would.
func callerOf(t testing.TB, id string, sotw bool, services ...string) *caller {
	c := &caller{sotw: sotw, responses: map[string]int{}, last: map[string]uint32{}, versions: map[string]map[string]string{}}
	var ups []bootstrap.Upstream
	var clusters []string
	for i, s := range services {
		ups = append(ups, port(s, 9000+i))
		clusters = append(clusters, clusterOf(s))
	}
	c.node = declaring(t, id, "web", ups...)
	c.asks = []message{
		{url: session.ClusterURL},
		{url: session.EndpointURL, names: clusters, add: clusters},
		{url: session.ListenerURL},
		{url: session.RouteURL, names: services, add: services},
	}
	return c
}

func clusterOf(service string) string { return service + ".default.dc1.internal.catenary.local" }

// call runs one stream until it ends. It may be called again: what is held is said at the start.
func (c *caller) call(ctx context.Context, conn *grpc.ClientConn) error {
	w, err := openWire(ctx, conn, c.sotw)
	if err != nil {
		return err
	}
	names := map[string][]string{}
	for i, m := range c.asks {
		if i == 0 {
			m.node = c.node
		}
		names[m.url] = m.names
		c.mu.Lock()
		m.initial = c.versions[m.url]
		c.mu.Unlock()
		if w.send(m) != nil {
			break // why is said by what is received
		}
	}
	for {
		r, err := w.reply()
		if err != nil {
			return err
		}
		c.take(r)
		_ = w.send(message{url: r.url, nonce: r.nonce, info: r.version, names: names[r.url], refuse: c.refuse}) // as above
	}
}

func (c *caller) take(r reply) {
	c.mu.Lock()
	c.responses[r.url]++
	c.bytes += r.size
	if c.versions[r.url] == nil {
		c.versions[r.url] = map[string]string{}
	}
	for name, version := range r.versions {
		c.versions[r.url][name] = version
	}
	c.mu.Unlock()
	if r.url != session.EndpointURL {
		return
	}
	for _, body := range r.bodies {
		set := parsed(body, &endpointv3.ClusterLoadAssignment{})
		if len(set.GetEndpoints()) == 0 {
			continue // it is absent
		}
		n := numberOf(set)
		c.mu.Lock()
		if before := c.last[set.GetClusterName()]; n < before {
			c.wrong = fmt.Errorf("%s was told %d of %s after %d", c.node.GetId(), n, set.GetClusterName(), before)
		}
		c.last[set.GetClusterName()] = n
		c.mu.Unlock()
		if c.numbers != nil {
			c.numbers(set.GetClusterName(), n)
		}
	}
}

// told is how many responses came, and how many bytes they had.
func (c *caller) told() (responses, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.responses {
		responses += n
	}
	return responses, c.bytes
}

// knows returns an error unless the client was told the number of a service last, and never went back.
func (c *caller) knows(service string, n uint32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if got := c.last[clusterOf(service)]; got != n {
		return fmt.Errorf("%s was told %d of %s last, want %d", c.node.GetId(), got, service, n)
	}
	return c.wrong
}

// numbered is an instance of a service whose address says a number. No two numbers take other bytes.
func numbered(service string, n uint32) *facts.Instance {
	in := at(service, &testenv.Backend{Port: 8080}, "v1", facts.StatusPassing)
	in.Service.Address = fmt.Sprintf("10.%d.%d.%d", 100+n>>14, 100+n>>7&127, 100+n&127)
	return in
}

// numberOf is the number of an endpoint set that has any.
func numberOf(set *endpointv3.ClusterLoadAssignment) uint32 {
	for _, l := range set.GetEndpoints() {
		for _, e := range l.GetLbEndpoints() {
			ip := net.ParseIP(e.GetEndpoint().GetAddress().GetSocketAddress().GetAddress()).To4()
			if ip != nil && ip[0] == 10 {
				return uint32(ip[1]-100)<<14 | uint32(ip[2]-100)<<7 | uint32(ip[3]-100)
			}
		}
	}
	return 0
}

// number tells the number of a service.
func (c *control) number(service string, n uint32) { c.instances(service, numbered(service, n)) }

// market loads services that have the number 0, and returns their names.
func (c *control) market(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = "s" + strconv.Itoa(i)
	}
	c.load(names...)
	for _, name := range names {
		c.number(name, 0)
	}
	c.closed()
	return names
}

// calls starts the streams of callers, over a few connections. They end with the test, or when the
// function is called.
func (c *control) calls(callers ...*caller) (end func()) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	var all sync.WaitGroup
	var conn *grpc.ClientConn
	for i, cl := range callers {
		if i%100 == 0 {
			conn = c.dial()
		}
		on := conn
		all.Go(func() { _ = cl.call(ctx, on) })
	}
	end = func() {
		cancel()
		all.Wait()
	}
	c.t.Cleanup(end)
	return end
}

// told waits until each caller was told the number of a service.
func (c *control) told(callers []*caller, service string, n uint32) {
	c.t.Helper()
	testenv.Eventually(c.t, 20*time.Second, func() error {
		for _, cl := range callers {
			if err := cl.knows(service, n); err != nil {
				return err
			}
		}
		return nil
	})
}

// synced waits until so many streams have taken all they were sent.
func (c *control) synced(n int, state string) {
	c.t.Helper()
	testenv.Eventually(c.t, time.Minute, func() error {
		in := 0
		for _, p := range c.server.Proxies() {
			if p.State == state {
				in++
			}
		}
		if in != n {
			return fmt.Errorf("%d of %d clients are %s", in, n, state)
		}
		return nil
	})
}

// serveOn serves on a free port until stop is called.
func serveOn(t testing.TB, g *grpc.Server) (addr string, stop func()) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = g.Serve(lis)
	}()
	return lis.Addr().String(), func() {
		g.Stop()
		<-ended
	}
}
