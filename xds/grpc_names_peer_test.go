package xds_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
	"github.com/catenary-mesh/catenary/xds/session"
)

// asker is a client that asks by name as gRPC's libraries do, all names over one stream.
type asker struct {
	t     *testing.T
	wire  wire
	node  *corev3.Node
	nonce map[string]string
	info  map[string]string
}

func (c *control) asker(agent string) *asker {
	c.t.Helper()
	w, err := openWire(within(c.t, 30*time.Second), c.dial(), true)
	if err != nil {
		c.t.Fatal(err)
	}
	return &asker{
		t: c.t, wire: w, nonce: map[string]string{}, info: map[string]string{},
		node: &corev3.Node{Id: "asker", UserAgentName: agent},
	}
}

// ask asks for names of a type, all that are wanted.
func (a *asker) ask(url string, names ...string) {
	a.t.Helper()
	if err := a.wire.send(message{node: a.node, url: url, nonce: a.nonce[url], info: a.info[url], names: names}); err != nil {
		a.t.Fatal(err)
	}
	a.node = nil
}

// hear takes the next response, and says its names.
func (a *asker) hear(url string, names ...string) told {
	a.t.Helper()
	r, err := a.wire.recv()
	if err != nil {
		a.t.Fatal(err)
	}
	got := slices.Sorted(maps.Keys(r.bodies))
	if r.url != url || !slices.Equal(got, names) {
		a.t.Fatalf("got %s %v, want %s %v", r.url, got, url, names)
	}
	a.nonce[url], a.info[url] = r.nonce, r.version
	return r
}

func TestNamesOfOneStreamDoNotWaitForEachOther(t *testing.T) {
	c := startControl(t, nil)
	c.load("api", "late")
	c.instances("api")
	a := c.asker("gRPC Java")
	a.ask(session.ListenerURL, "late")
	a.ask(session.ListenerURL, "late", "api") // the first is not known yet
	a.hear(session.ListenerURL, "api")
	a.ask(session.ListenerURL, "api", "late")
	a.ask(session.RouteURL, "api")
	a.hear(session.RouteURL, "api")
	a.ask(session.ListenerURL, "api", "api:443", "late")
	a.hear(session.ListenerURL, "api", "api:443")
	a.ask(session.ListenerURL, "api", "api:443", "late")
	c.instances("late")
	a.hear(session.ListenerURL, "api", "api:443", "late")
	a.ask(session.ListenerURL, "late")
	a.ask(session.RouteURL, "late")
	a.hear(session.RouteURL, "late")
	c.proxy("asker", xds.StateSynced)
}

// A replica that has just started knows some of what a client comes back for, and not which of it the client has.
func TestNamesOfWhoComesBackDoNotWaitForEachOther(t *testing.T) {
	c := startControl(t, nil)
	c.load("api", "late")
	c.instances("api")
	first := c.asker("gRPC Node Pure JS")
	first.ask(session.ListenerURL, "api", "late")
	first.hear(session.ListenerURL, "api")
	first.ask(session.ListenerURL, "api", "late")
	clusters := first.clusters("api")

	again := c.asker("gRPC Node Pure JS")
	again.info = map[string]string{session.ListenerURL: first.info[session.ListenerURL], session.ClusterURL: "of another replica"}
	again.ask(session.ListenerURL, "api", "late") // it has what it had, and late was not among it
	again.hear(session.ListenerURL, "api")
	again.ask(session.ListenerURL, "api", "late")
	again.ask(session.ClusterURL, clusters...) // all that it may have is known
	again.hear(session.ClusterURL, clusters...)

	third := c.asker("gRPC Node Pure JS")
	third.info = map[string]string{session.ListenerURL: "of another replica"}
	third.ask(session.ListenerURL, "api", "late") // it may have late
	c.instances("late")
	third.hear(session.ListenerURL, "api", "late")
}

// clusters asks for the cluster of a service, as its routes name it.
func (a *asker) clusters(service string) []string {
	a.t.Helper()
	a.ask(session.RouteURL, service)
	var routes routev3.RouteConfiguration
	if err := proto.Unmarshal(a.hear(session.RouteURL, service).bodies[service], &routes); err != nil {
		a.t.Fatal(err)
	}
	names := []string{routes.GetVirtualHosts()[0].GetRoutes()[0].GetRoute().GetCluster()}
	a.ask(session.RouteURL, service)
	a.ask(session.ClusterURL, names...)
	a.hear(session.ClusterURL, names...)
	return names
}

func TestNamesOfOneStreamAreBounded(t *testing.T) {
	c := startControl(t, nil)
	c.load("api")
	a := c.asker("gRPC Go")
	names := make([]string, 1001)
	for i := range names {
		names[i] = fmt.Sprintf("name-%d", i)
	}
	a.ask(session.ListenerURL, names...)
	if _, err := a.wire.recv(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("asked for %d names: %v", len(names), err)
	}
}

// A client that changes its mind all the time is read slowly, and leaves nothing behind.
func TestNamesThatChangeAllTheTimeCostLittle(t *testing.T) {
	c := startControl(t, nil)
	c.load("api")
	before, _ := c.store.Needs()
	ctx, cancel := context.WithCancel(t.Context())
	w, err := openWire(ctx, c.dial(), true)
	if err != nil {
		t.Fatal(err)
	}
	a := &asker{t: t, wire: w, nonce: map[string]string{}, info: map[string]string{}, node: &corev3.Node{Id: "asker", UserAgentName: "gRPC Node Pure JS"}}
	for i := range 150 {
		a.ask(session.ListenerURL, fmt.Sprintf("name-%d", i))
	}
	a.ask(session.ListenerURL, "api")
	c.instances("api")
	for {
		r, err := w.recv()
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := r.bodies["api"]; ok {
			break
		}
		a.nonce[r.url], a.info[r.url] = r.nonce, r.version
		a.ask(session.ListenerURL, "api")
	}
	cancel()
	testenv.Eventually(t, 10*time.Second, func() error {
		if now, _ := c.store.Needs(); len(now) != len(before) {
			return fmt.Errorf("%v is needed, %v before", now, before)
		}
		return nil
	})
}

func TestAServiceThatIsBornIsHeardOf(t *testing.T) {
	c := startControl(t, nil)
	c.load("api")
	client := c.grpcClient("unborn")
	if _, err := client.Call(within(t, 5*time.Second), "/shop.Shop/Get"); status.Code(err) != codes.Unavailable {
		t.Errorf("nobody answered: %v", err)
	}
	c.load("api", "unborn")
	c.instances("unborn", grpcAt("unborn", testenv.StartGRPCBackend(t, "v1", nil), facts.StatusPassing))
	answered(t, client, "v1")
}

// A client that comes back asks for all it has in any order: what it asks for before it has named a listener is
// not absent.
func TestAClientThatComesBackMayAskForItsClustersFirst(t *testing.T) {
	c := startControl(t, nil)
	c.load("api")
	c.instances("api")
	first := c.asker("gRPC Go")
	first.ask(session.ListenerURL, "api")
	first.hear(session.ListenerURL, "api")
	clusters := first.clusters("api")

	again := c.asker("gRPC Go")
	again.node.Id = "again"
	again.ask(session.ClusterURL, clusters...)
	c.proxy("again", xds.StateNotSent)
	again.ask(session.ListenerURL, "api")
	again.hear(session.ClusterURL, clusters...)
}
