package destination

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

func (w *world) expect(path, want string) Resolution {
	w.t.Helper()
	got, r := w.resolved(path, nil)
	if got != want {
		w.t.Errorf("%s: got %q, want %q (%s)", path, got, want, r.Pending)
	}
	return r
}

const api = "api.service.consul"

func TestNothingIsSaidBeforeItIsKnown(t *testing.T) {
	w := &world{t: t, store: facts.New()}
	w.expect(api, "unknown")
	w.entries()
	w.expect(api, "unknown")
	w.services("api")
	r := w.expect(api, "unknown")
	if !slices.Contains(r.Needs, facts.Health("dc1", "api")) || !slices.Contains(r.Needs, facts.Connect("dc1", "api")) || r.Pending == "" {
		t.Errorf("it needs %v and waits for %q", r.Needs, r.Pending)
	}
	w.service("api", list(instance("api", 1)), nil)
	w.expect(api, "some: 10.0.0.1:8080")
	w.services()
	w.expect("other.service.consul", "no service")
	w.expect("api.service.dc2.consul", "unknown")
}

func TestWhatExists(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{api, "v2.api.service.consul"} {
		if r := w.expect(path, "no service"); len(r.Needs) > 1 {
			t.Errorf("a name that does not exist has the needs %v", r.Needs)
		}
	}
	w.entries(subsets())
	w.expect(api, "no endpoints")
	w.expect("v2.api.service.consul", "no endpoints")
	w.expect("V2.API.service.consul", "no endpoints")
	w.expect("v3.api.service.consul", "no service")
	w.entries(&chain.ServiceSplitter{Header: head("api"), Splits: []chain.ServiceSplit{{Weight: 100, Service: "web"}}})
	w.expect(api, "no endpoints")
	w.entries()
	w.services("api")
	w.service("api", list(critical(instance("api", 1))), nil)
	w.expect(api, "no endpoints")
}

func TestTheChainDecides(t *testing.T) {
	w := newWorld(t)
	w.services("api", "web", "spare")
	one, two := instance("api", 1), instance("api", 2)
	one.Service.Meta, two.Service.Meta = map[string]string{"version": "v1"}, map[string]string{"version": "v2"}
	w.service("api", list(one, two), nil)
	w.service("web", list(instance("web", 3)), nil)
	w.service("spare", list(instance("spare", 4)), nil)
	both := "some: 10.0.0.1:8080 10.0.0.2:8080"
	w.expect(api, both)

	resolver := &chain.ServiceResolver{Header: head("api"), DefaultSubset: "v1", Subsets: map[string]chain.Subset{
		"v1": {Filter: `Service.Meta.version == "v1"`}, "v2": {Filter: `Service.Meta.version == "v2"`},
	}, Failover: map[string]chain.Failover{"v2": {Service: "spare"}}}
	w.entries(resolver)
	w.expect(api, "some: 10.0.0.1:8080")
	r := w.expect("v2.api.default.service.consul:9", "some: 10.0.0.2:8080")
	if want := (Labels{Service: "api", Subset: "v2", Datacenter: "dc1"}); r.Set.Labels != want {
		t.Errorf("got labels %+v, want %+v", r.Set.Labels, want)
	}
	w.service("api", list(one, critical(two)), nil)
	r = w.expect("v2.api.service.consul", "some: 10.0.0.4:8080")
	if r.Set.Labels.Service != "spare" {
		t.Errorf("after a failover the labels are %+v", r.Set.Labels)
	}
	w.service("spare", nil, nil)
	w.expect("v2.api.service.consul", "no endpoints")

	w.entries(&chain.ServiceResolver{Header: head("api"), Redirect: &chain.Redirect{Service: "web"}})
	w.expect(api, "some: 10.0.0.3:8080")
	w.entries(&chain.ServiceSplitter{Header: head("api"), Splits: []chain.ServiceSplit{{Weight: 100, Service: "web"}}})
	w.expect(api, "some: 10.0.0.1:8080") // its profile sends to web, by that name
}

func TestFailoverWaitsForWhatIsNotKnown(t *testing.T) {
	w := newWorld(t)
	w.services("api", "spare")
	w.entries(&chain.ServiceResolver{Header: head("api"), Failover: map[string]chain.Failover{"*": {Service: "spare"}}})
	w.service("spare", list(instance("spare", 4)), nil)
	w.expect(api, "unknown") // although there is somewhere to go
	w = newWorld(t)
	w.services("api", "spare")
	w.entries(&chain.ServiceResolver{Header: head("api"), Failover: map[string]chain.Failover{"*": {Service: "spare"}}})
	w.service("api", list(instance("api", 1)), nil)
	r := w.expect(api, "some: 10.0.0.1:8080")
	if !slices.Contains(r.Needs, facts.Health("dc1", "spare")) {
		t.Errorf("what it would fail over to is not followed: %v", r.Needs)
	}
	w.service("api", list(critical(instance("api", 1))), nil)
	w.expect(api, "unknown") // and not: no endpoints
	w.service("spare", list(instance("spare", 4)), nil)
	w.expect(api, "some: 10.0.0.4:8080")
}

func TestMeshInstancesAreDialledByTheirSidecars(t *testing.T) {
	const identity = "=spiffe://x.consul/ns/default/dc/dc1/svc/Api@api.default.dc1.internal.x.consul"
	w := newWorld(t)
	w.services("Api")
	proxied := sidecar("Api", 1)
	w.service("api", list(instance("Api", 1), instance("Api", 2)), list(proxied))
	w.expect(api, "some: 10.0.0.1:20000"+identity+" 10.0.0.2:8080")
	w.service("api", list(instance("Api", 1), instance("Api", 2)), list(critical(proxied)))
	w.expect(api, "some: 10.0.0.2:8080") // never past the sidecar, in plaintext
	native := instance("Api", 3)
	native.Service.Connect.Native = true
	w.service("api", list(native), list(native))
	w.expect(api, "some: 10.0.0.3:8080"+identity)
	proxied.Service.Proxy.DestinationServiceID = ""
	w.service("api", list(instance("Api", 1)), list(critical(proxied)))
	w.expect(api, "no endpoints")
	name, _ := names().Parse(api)
	plain := place1()
	plain.Plain = true
	if r := plain.Resolve(w.store.View(), name, "", nil); r.State != Some || r.Set.Endpoints[0].Identity != "" {
		t.Errorf("dialled plainly: %+v", r)
	}
}

func TestWhatCannotBeDialledIsNoted(t *testing.T) {
	w := newWorld(t)
	w.services("api")
	named, portless, fine := instance("api", 1), instance("api", 2), instance("api", 3)
	named.Service.Address, portless.Service.Port = "backend.example.com", 0
	w.service("api", list(named, portless, fine), nil)
	if r := w.expect(api, "some: 10.0.0.3:8080"); len(r.Notes) != 1 || !strings.Contains(r.Notes[0], `instances left out: 2, such as "api-1" at "backend.example.com"`) {
		t.Errorf("the notes are %q", r.Notes)
	}
	w.service("api", list(portless), list(sidecar("api", 2))) // dialled through its sidecar, it needs no port
	if r := w.expect(api, "some: 10.0.0.2:20000=spiffe://x.consul/ns/default/dc/dc1/svc/api@api.default.dc1.internal.x.consul"); len(r.Notes) > 0 {
		t.Errorf("the notes are %q", r.Notes)
	}
}

// TestASidecarThatTLSCannotAskForIsLeftOut has names of services that no certificate can be asked for by: proxies would
// dial their sidecars in plaintext.
func TestASidecarThatTLSCannotAskForIsLeftOut(t *testing.T) {
	for _, name := range []string{"my api", strings.Repeat("a", 64), "api-"} {
		w := newWorld(t)
		w.services(name)
		w.service(name, list(instance(name, 1)), list(sidecar(name, 1)))
		if r := w.expect(Name{Service: name, Datacenter: "dc1", Port: 80}.Authority(), "no endpoints"); len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "sidecars left out: 1") {
			t.Errorf("of %q the notes are %q", name, r.Notes)
		}
	}
}

func TestOpaqueIsWhatSpeaksTCP(t *testing.T) {
	w := newWorld(t)
	w.services("api")
	w.service("api", list(instance("api", 1)), nil)
	if r := w.expect(api, "some: 10.0.0.1:8080"); r.Set.Endpoints[0].Opaque {
		t.Error("an http service is opaque")
	}
	w.entries(&chain.ServiceDefaults{Header: head("api"), Protocol: "tcp"})
	if r := w.expect(api, "some: 10.0.0.1:8080"); !r.Set.Endpoints[0].Opaque {
		t.Error("a tcp service is not opaque")
	}
}

func TestAChainThatDoesNotCompileLeavesTheLast(t *testing.T) {
	w := newWorld(t)
	w.services("api", "web")
	w.service("api", list(instance("api", 1)), nil)
	_, r := w.resolved(api, nil)
	w.service("web", list(instance("web", 3)), nil)
	w.entries(&chain.ServiceResolver{Header: head("api"), Redirect: &chain.Redirect{Service: "web"}},
		&chain.ServiceResolver{Header: head("web"), Redirect: &chain.Redirect{Service: "api"}})
	if got, r := w.resolved(api, r.Chain); got != "some: 10.0.0.1:8080" || len(r.Problems) == 0 {
		t.Errorf("got %s with problems %v", got, r.Problems)
	}
	w.expect(api, "no endpoints")
}

func TestReadersGetWhatTheyMayRead(t *testing.T) {
	w := newWorld(t)
	w.services("api")
	w.service("api", list(instance("api", 1)), nil)
	name, _ := names().Parse(api)
	r := place1().Resolve(w.store.View(), name, "me", nil)
	if r.State != Unknown || r.Denied != "" || !slices.Contains(r.Needs, facts.Rights("me", "api")) {
		t.Errorf("before the right is known: %+v", r)
	}
	w.store.Commit(func(tx *facts.Tx) { tx.Right(facts.Rights("me", "api"), false) })
	if r := place1().Resolve(w.store.View(), name, "me", nil); r.Denied != "api" {
		t.Errorf("without the right: %+v", r)
	}
	w.store.Commit(func(tx *facts.Tx) { tx.Right(facts.Rights("me", "api"), true) })
	if r := place1().Resolve(w.store.View(), name, "me", nil); r.State != Some {
		t.Errorf("with the right: %+v", r)
	}
}

func TestDescriptions(t *testing.T) {
	w := newWorld(t)
	name, _ := names().Parse("v2.api.service.consul:81")
	if d := place1().Describe(w.store.View(), name, "", nil); d.State != NoService || d.Profile.GetFullyQualifiedName() != "" {
		t.Errorf("of what does not exist: %+v", d)
	}
	w.entries(subsets(), &chain.ServiceDefaults{Header: head("api"), Protocol: "grpc"})
	d := place1().Describe(w.store.View(), name, "", nil)
	if overridesOf(d.Profile) != "v2.api.service.dc1.consul:81=10000" || d.Profile.GetOpaqueProtocol() {
		t.Errorf("of a subset: %+v", d)
	}
	in := sidecar("API", 1)
	described := place1().DescribeInstance(w.store.View(), in, netip.MustParseAddrPort("10.0.0.1:20000"), "")
	e := described.Profile.At(described.Set, Encoder{})
	if e.GetEndpoint().GetTlsIdentity().GetServerName().GetName() != "api.default.dc1.internal.x.consul" || len(e.GetDstOverrides()) > 0 ||
		e.GetEndpoint().GetMetricLabels()["service"] != "API" || e.GetFullyQualifiedName() != "" {
		t.Errorf("of an instance: %v", e.DestinationProfile)
	}
}

// TestAnInstanceIsOfWhoMayReadItsService has the right come and go: what is made of it must hear of that.
func TestAnInstanceIsOfWhoMayReadItsService(t *testing.T) {
	w := newWorld(t)
	right := facts.Rights("me", "api")
	for _, step := range []struct {
		may    bool
		state  State
		denied string
	}{{true, Some, ""}, {false, Unknown, "api"}} {
		w.store.Commit(func(tx *facts.Tx) { tx.Right(right, step.may) })
		d := place1().DescribeInstance(w.store.View(), sidecar("api", 1), netip.MustParseAddrPort("10.0.0.1:20000"), "me")
		_, reads := d.Reads[facts.ID{Topic: right}]
		if d.State != step.state || d.Denied != step.denied || !reads || !slices.Contains(d.Needs, right) {
			t.Errorf("with the right %t: %+v", step.may, d.Resolution)
		}
	}
}

func TestTheBookKnowsWhoHasAnAddress(t *testing.T) {
	b, changed := newBook(), map[netip.Addr]struct{}{}
	vip := netip.MustParseAddr("240.0.0.1")
	tagged := func(in *facts.Instance) *facts.Instance {
		in.Service.TaggedAddresses = map[string]facts.Address{"consul-virtual": {Address: vip.String(), Port: 80}}
		return in
	}
	topic := facts.Health("dc1", "api-sidecar-proxy")
	first, second := tagged(sidecar("api", 1)), tagged(sidecar("api", 2))
	b.apply(b.revise(topic, list(first, second)), changed)
	if got := b.ownersOf(vip); !slices.Equal(got, []string{"api"}) || len(changed) != 3 {
		t.Errorf("the owners are %v, and %d addresses changed", got, len(changed))
	}
	if b.instance(netip.MustParseAddrPort("10.0.0.1:20000")) != first {
		t.Error("an instance is not found by its address")
	}
	b.apply(b.revise(topic, list(second)), changed)
	if got := b.ownersOf(vip); len(got) != 1 || b.instance(netip.MustParseAddrPort("10.0.0.1:20000")) != nil {
		t.Errorf("after one has gone the owners are %v", got)
	}
	b.apply(b.revise(facts.Health("dc1", "web"), list(tagged(sidecar("web", 3)))), changed)
	if got := b.ownersOf(vip); !slices.Equal(got, []string{"api", "web"}) {
		t.Errorf("two that have it: %v", got)
	}
	b.apply(b.revise(topic, nil), changed)
	b.apply(b.revise(facts.Health("dc1", "web"), nil), changed)
	if len(b.live)+len(b.owners)+len(b.instances)+len(b.pages) > 0 {
		t.Errorf("something is left: %+v", b)
	}
}
