package destination

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	conduitpb "github.com/catenary-mesh/catenary/internal/proto/conduit"
	pb "github.com/catenary-mesh/catenary/internal/proto/destination"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open admits everyone.
type open struct{}

func (open) Admit(context.Context, string) (*Grant, error) {
	return &Grant{Err: func() error { return nil }, Release: func() {}}, nil
}

func (c *counts) get() (encoded, streams int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.encoded, c.streams
}

// served is a server of a world, with a connection to it.
type served struct {
	*world
	*Server
	counts *counts
	conn   *grpc.ClientConn
	ctx    context.Context
}

func serve(t testing.TB, w *world, change func(*Config)) *served {
	s := &served{world: w, counts: &counts{}}
	cfg := Config{Store: w.store, Logger: hclog.NewNullLogger(), Metrics: s.counts, Place: place1(), Guard: open{}, Keepalive: time.Hour}
	if change != nil {
		change(&cfg)
	}
	s.Server = NewServer(cfg)
	g := grpc.NewServer()
	s.Register(g)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { _ = s.Run(ctx) })
	group.Go(func() { _ = g.Serve(listener) })
	if s.conn, err = grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		t.Fatal(err)
	}
	s.ctx = ctx
	t.Cleanup(func() {
		_ = s.conn.Close()
		cancel()
		g.Stop()
		group.Wait()
	})
	return s
}

// told returns what a stream of endpoints is sent, as words, one message each.
func (s *served) get(path string) (next func() string) {
	s.t.Helper()
	st, err := pb.NewDestinationClient(s.conn).Get(s.ctx, &pb.GetDestination{Path: path, ContextToken: "garbage"})
	if err != nil {
		s.t.Fatal(err)
	}
	return func() string {
		u, err := st.Recv()
		if err != nil {
			return status.Code(err).String()
		}
		return text(s.t.(*testing.T), []Step{marshal(u)})
	}
}

func (s *served) profile(path string) (next func() *pb.DestinationProfile) {
	s.t.Helper()
	st, err := pb.NewDestinationClient(s.conn).GetProfile(s.ctx, &pb.GetDestination{Path: path})
	if err != nil {
		s.t.Fatal(err)
	}
	return func() *pb.DestinationProfile {
		p, err := st.Recv()
		if err != nil {
			return &pb.DestinationProfile{FullyQualifiedName: status.Code(err).String()}
		}
		return p
	}
}

func wants(t *testing.T, next func() string, messages ...string) {
	t.Helper()
	for _, want := range messages {
		if got := next(); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
}

func TestAStreamIsToldEveryChange(t *testing.T) {
	w := newWorld(t)
	s := serve(t, w, nil)
	next := s.get(api)
	wants(t, next, "none exists=false")
	w.entries(&chain.ServiceResolver{Header: head("api"), Failover: map[string]chain.Failover{"*": {Service: "spare"}}})
	wants(t, next, "none exists=true")
	w.services("api", "spare")
	w.service("spare", list(instance("spare", 9)), nil)
	w.service("api", list(instance("api", 1), instance("api", 2)), nil)
	wants(t, next, "add 10.0.0.1:8080 10.0.0.2:8080")
	w.service("api", list(critical(instance("api", 1)), instance("api", 2)), nil)
	wants(t, next, "remove 10.0.0.1:8080")
	w.service("api", nil, nil)
	wants(t, next, "add 10.0.0.9:8080", "remove 10.0.0.2:8080")
	w.service("spare", nil, nil)
	wants(t, next, "none exists=true")
	w.entries()
	w.services()
	wants(t, next, "none exists=false")
}

func TestWhatIsNoNameEndsAsInvalid(t *testing.T) {
	s := serve(t, newWorld(t), nil)
	for _, path := range []string{"", "api", "10.0.0.1:80", "api.example.com"} {
		wants(t, s.get(path), codes.InvalidArgument.String())
	}
	if p := s.profile("nothing")(); p.GetFullyQualifiedName() != codes.InvalidArgument.String() {
		t.Errorf("got %v", p)
	}
}

func TestAStreamWaitsUntilSomethingIsKnown(t *testing.T) {
	w := &world{t: t, store: facts.New()}
	s := serve(t, w, nil)
	next := s.get(api)
	testenv.Eventually(t, 5*time.Second, func() error {
		for _, st := range s.Streams() {
			if st.Pending != "" {
				return nil
			}
		}
		return fmt.Errorf("no stream is pending: %+v", s.Streams())
	})
	w.entries()
	w.services("api")
	w.service("api", list(instance("api", 1)), nil)
	wants(t, next, "add 10.0.0.1:8080")
}

func TestConduitHearsRegularly(t *testing.T) {
	w := newWorld(t)
	w.services("api")
	w.service("api", list(sidecar("api", 1)), nil)
	s := serve(t, w, func(c *Config) { c.Keepalive = 20 * time.Millisecond })
	st, err := conduitpb.NewDestinationClient(s.conn).Get(s.ctx, &conduitpb.Destination{Scheme: "k8s", Path: api})
	if err != nil {
		t.Fatal(err)
	}
	first, err := st.Recv()
	if err != nil || len(first.GetAdd().GetAddrs()) != 1 || len(first.GetAdd().GetAddrs()[0].ProtoReflect().GetUnknown()) > 0 {
		t.Fatalf("the first message is %v, %v", first, err)
	}
	for range 3 {
		if m, err := st.Recv(); err != nil || m.GetAdd() == nil || len(m.GetAdd().GetAddrs()) > 0 {
			t.Fatalf("got %v, %v, want an add of nothing", m, err)
		}
	}
}

func TestProfilesFollowTheChain(t *testing.T) {
	w := newWorld(t)
	w.services("api")
	s := serve(t, w, nil)
	next := s.profile("api.service.consul:8080")
	if p := next(); overridesOf(Profile{DestinationProfile: p}) != "api.service.dc1.consul:8080=10000" {
		t.Errorf("got %v", p)
	}
	w.entries(&chain.ServiceResolver{Header: head("other")}) // changes nothing, and so is not told
	w.entries(subsets(), &chain.ServiceSplitter{Header: head("api"), Splits: []chain.ServiceSplit{{Weight: 90, ServiceSubset: "v1"}, {Weight: 10, ServiceSubset: "v2"}}})
	if p := next(); overridesOf(Profile{DestinationProfile: p}) != "v1.api.service.dc1.consul:8080=9000 v2.api.service.dc1.consul:8080=1000" {
		t.Errorf("got %v", p)
	}
}

func TestProfilesByAddress(t *testing.T) {
	w := newWorld(t)
	s := serve(t, w, nil)
	virtual := func(in *facts.Instance, ip string) *facts.Instance {
		in.Service.TaggedAddresses = map[string]facts.Address{"consul-virtual": {Address: ip, Port: 80}}
		return in
	}
	w.services("api", "api-sidecar-proxy", "web-sidecar-proxy")
	byVIP, byAddr, unknown := s.profile("240.0.0.1:80"), s.profile("10.0.0.1:8080"), s.profile("10.9.9.9:1")
	w.service("api", list(instance("api", 1)), nil)
	w.service("web-sidecar-proxy", nil, nil)
	w.service("api-sidecar-proxy", list(virtual(sidecar("api", 1), "240.0.0.1")), nil)
	if p := byVIP(); p.GetFullyQualifiedName() != "api.service.dc1.consul" || p.GetEndpoint() != nil {
		t.Errorf("by virtual IP: %v", p)
	}
	if p := byAddr(); p.GetEndpoint() == nil || addrOf(p.GetEndpoint().GetAddr()).String() != "10.0.0.1:8080" || len(p.GetDstOverrides()) > 0 {
		t.Errorf("by the address of an instance: %v", p)
	}
	if p := unknown(); p.GetEndpoint() != nil || p.GetFullyQualifiedName() != "" || p.GetRetryBudget() == nil {
		t.Errorf("by an address of nobody: %v", p)
	}
	w.service("api", nil, nil)
	if p := byAddr(); p.GetEndpoint() != nil {
		t.Errorf("after the instance went: %v", p)
	}
}

// TestMadeUpDatacentersAreBounded has more of them asked for than there are allowed.
func TestMadeUpDatacentersAreBounded(t *testing.T) {
	s := serve(t, newWorld(t), nil)
	var watches []*watcher
	var subjects []*subject
	join := func(service, datacenter string) error {
		w := newWatcher()
		subject, err := s.hub.join(question{name: Name{Service: service, Datacenter: datacenter}}, w)
		if err == nil {
			watches, subjects = append(watches, w), append(subjects, subject)
		}
		return err
	}
	for i := range maxDatacenters {
		if err := join("api", fmt.Sprintf("far-%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	wants(t, s.get("api.service.one-more.consul"), codes.ResourceExhausted.String())
	if err := join("web", "far-1"); err != nil {
		t.Errorf("another service of a datacenter that is known: %v", err)
	}
	wants(t, s.get(api), "none exists=false")
	for i := range watches {
		s.hub.leave(subjects[i], watches[i])
	}
	if err := join("api", "one-more"); err != nil {
		t.Errorf("after all left: %v", err)
	}
	s.hub.leave(subjects[len(subjects)-1], watches[len(watches)-1])
}

func TestNothingIsKeptOfStreamsThatEnded(t *testing.T) {
	w := newWorld(t)
	w.services("api")
	w.entries(&chain.ServiceRouter{Header: head("api"), Routes: []chain.ServiceRoute{
		route(chain.HTTPMatch{QueryParam: []chain.QueryParamMatch{{Name: "x", Present: true}}}, nil),
		route(chain.HTTPMatch{PathExact: "/a"}, &chain.RouteDestination{RequestTimeout: time.Second}),
	}})
	s := serve(t, w, nil)
	ctx, cancel := context.WithCancel(s.ctx)
	for _, path := range []string{api, "10.0.0.1:80", "240.0.0.1", "web.service.consul"} {
		if _, err := pb.NewDestinationClient(s.conn).GetProfile(ctx, &pb.GetDestination{Path: path}); err != nil {
			t.Fatal(err)
		}
	}
	testenv.Eventually(t, 5*time.Second, func() error {
		if _, streams := s.counts.get(); streams != 4 {
			return fmt.Errorf("%d streams", streams)
		}
		return nil
	})
	if got := s.counts.ofRoutes(); got != [2]int{1, 1} {
		t.Errorf("the routes that cannot be said are counted as %v", got)
	}
	cancel()
	testenv.Eventually(t, 5*time.Second, func() error {
		s.hub.mu.Lock()
		defer s.hub.mu.Unlock()
		d, a := s.hub.addresses, s.hub.atlas
		d.mu.Lock()
		defer d.mu.Unlock()
		a.mu.Lock()
		defer a.mu.Unlock()
		n := len(s.hub.subjects) + len(s.hub.byFact) + len(s.hub.news) + len(s.hub.datacenters) + len(d.asked) + len(d.waiting) + len(a.asked)
		if n > 0 || d.book != nil || a.nodes != nil {
			return fmt.Errorf("%d things are kept, the book is %v, and the atlas is %v", n, d.book, a.nodes)
		}
		return nil
	})
	if got := s.counts.ofRoutes(); got != [2]int{} {
		t.Errorf("routes are still counted: %v", got)
	}
	if left, _ := w.store.Needs(); len(left) > 0 {
		t.Errorf("what is needed still: %v", left)
	}
}

// TestSubscribingWhileThingsChange has streams come and go beside changes: whenever they come, what they end up
// with is what there is, and none is told that there is nothing.
func TestSubscribingWhileThingsChange(t *testing.T) {
	w := newWorld(t)
	w.services("api")
	w.service("api", list(instance("api", 1)), nil)
	s := serve(t, w, nil)
	var group sync.WaitGroup
	const changes = 60
	group.Go(func() {
		for i := range changes {
			w.service("api", list(instance("api", 1+i%7), instance("api", 100)), nil)
		}
		w.service("api", list(instance("api", 200)), nil)
	})
	for range 30 {
		group.Go(func() {
			c := &client{fresh: true}
			st, err := pb.NewDestinationClient(s.conn).Get(s.ctx, &pb.GetDestination{Path: api})
			if err != nil {
				t.Error(err)
				return
			}
			for len(c.has) != 1 || c.has[instanceAddr(200)] == nil {
				u, err := st.Recv()
				if err != nil || u.GetNoEndpoints() != nil {
					t.Errorf("got %v, %v", u, err)
					return
				}
				if u.GetRemove() != nil && c.fresh {
					t.Error("the first message is a remove")
					return
				}
				c.apply(t, u)
			}
		})
	}
	group.Wait()
}

func TestAGuardDecides(t *testing.T) {
	revoked := make(chan struct{})
	s := serve(t, newWorld(t), func(c *Config) { c.Guard = &gate{revoked: revoked} })
	next := s.get(api)
	wants(t, next, "none exists=false")
	close(revoked)
	wants(t, next, codes.PermissionDenied.String())
	s = serve(t, newWorld(t), func(c *Config) { c.Guard = &gate{refuse: true} })
	wants(t, s.get(api), codes.Unauthenticated.String())
}

type gate struct {
	refuse  bool
	revoked chan struct{}
}

func (g *gate) Admit(_ context.Context, client string) (*Grant, error) {
	if g.refuse || !strings.Contains(client, "api") {
		return nil, status.Error(codes.Unauthenticated, "no")
	}
	return &Grant{Revoked: g.revoked, Err: func() error { return status.Error(codes.PermissionDenied, "gone") }, Release: func() {}}, nil
}
