package snapshot_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/snapshot"
)

// fleet is a fact store that is written by hand.
type fleet struct {
	t     *testing.T
	store *facts.Store
	sub   *facts.Subscription
	cache *snapshot.Cache
}

var confirmed = facts.Reading{Confirmed: true}

func newFleet(t *testing.T, cfg snapshot.Config) *fleet {
	cfg.Datacenter, cfg.TrustDomain = "dc1", "catenary.local"
	f := &fleet{t: t, store: facts.New(), cache: snapshot.NewCache(cfg)}
	f.sub = f.store.Subscribe()
	return f
}

// loaded is a fleet whose always-followed topics are known.
func loaded(t *testing.T, cfg snapshot.Config, services ...string) *fleet {
	f := newFleet(t, cfg)
	f.store.Commit(func(tx *facts.Tx) {
		for _, k := range chain.AllKinds() {
			tx.Entries(k, nil, confirmed)
		}
		tx.Services("dc1", services, confirmed)
	})
	return f
}

func (f *fleet) entries(kind chain.Kind, entries ...chain.Entry) {
	f.store.Commit(func(tx *facts.Tx) { tx.Entries(kind, entries, confirmed) })
}

func (f *fleet) instances(topic facts.Topic, r facts.Reading, list ...*facts.Instance) {
	f.store.Commit(func(tx *facts.Tx) { tx.Instances(topic, list, r) })
}

func (f *fleet) update() snapshot.Delta {
	view, changed := f.sub.Drain()
	return f.cache.Update(view, changed)
}

func (f *fleet) put(c snapshot.Client) snapshot.Delta {
	return f.cache.Put(c.ID, c, f.store.View())
}

func instance(service, id string, port int, status facts.CheckStatus) *facts.Instance {
	return &facts.Instance{
		Node: facts.Node{Node: "n1", Address: "127.0.0.1", Datacenter: "dc1"},
		Service: facts.Service{
			ID: id, Service: service, Port: port,
			Meta: map[string]string{"version": strings.TrimPrefix(id, service+"-")},
		},
		Checks: []facts.Check{{CheckID: "c:" + id, Status: status}},
	}
}

func client(id string, upstreams ...string) snapshot.Client {
	c := snapshot.Client{ID: id, Service: "web", Declared: true}
	for i, u := range upstreams {
		service, dc, _ := strings.Cut(u, "@")
		c.Upstreams = append(c.Upstreams, snapshot.Upstream{
			Service: service, Datacenter: dc, BindAddress: "127.0.0.1", BindPort: 9000 + i,
		})
	}
	return c
}

func names(p *snapshot.Plan) []string {
	var list []string
	for _, r := range p.Resources() {
		list = append(list, r.Key.Product()+" "+r.Name)
	}
	return list
}

func TestAPlanNamesWhatAnUpstreamNeeds(t *testing.T) {
	f := loaded(t, snapshot.Config{}, "api")
	d := f.put(client("p1", "api"))
	if plan := d.Plans["p1"]; plan.Hold == "" || len(plan.Needs) == 0 {
		t.Fatalf("a client of an unread service must be held and need it, got %+v", plan)
	}
	f.instances(facts.Health("dc1", "api"), confirmed, instance("api", "api-v1", 8001, facts.StatusPassing))
	plan := f.update().Plans["p1"]
	want := []string{
		"cluster api.default.dc1.internal.catenary.local",
		"endpoints api.default.dc1.internal.catenary.local",
		"listener api:127.0.0.1:9000",
	}
	if got := names(plan); strings.Join(got, ";") != strings.Join(want, ";") || !plan.Complete() {
		t.Errorf("plan = %q complete=%v hold=%q, want %q", got, plan.Complete(), plan.Hold, want)
	}
}

func TestAFlipRunsNoPlanAndMakesOneProduct(t *testing.T) {
	f := loaded(t, snapshot.Config{}, "api", "db")
	for _, s := range []string{"api", "db"} {
		f.instances(facts.Health("dc1", s), confirmed,
			instance(s, s+"-v1", 8001, facts.StatusPassing), instance(s, s+"-v2", 8002, facts.StatusPassing))
	}
	for i := range 50 {
		f.put(client(fmt.Sprintf("p%d", i), "api", "db"))
	}
	f.update()
	before := f.cache.Counts()
	f.instances(facts.Health("dc1", "api"), confirmed,
		instance("api", "api-v1", 8001, facts.StatusPassing), instance("api", "api-v2", 8002, facts.StatusCritical))
	d := f.update()
	after := f.cache.Counts()
	if after.Plans != before.Plans || after.Chains != before.Chains {
		t.Errorf("a flip ran %d plans and compiled %d chains, want none",
			after.Plans-before.Plans, after.Chains-before.Chains)
	}
	made := 0
	for kind, n := range after.Products {
		made += n - before.Products[kind]
	}
	if made != 1 || len(d.Products) != 1 {
		t.Errorf("a flip made %d products, of which %d changed, want 1 and 1", made, len(d.Products))
	}
}

func TestEqualClientsShareProductsAndDifferentLimitsDoNot(t *testing.T) {
	f := loaded(t, snapshot.Config{}, "api")
	f.instances(facts.Health("dc1", "api"), confirmed, instance("api", "api-v1", 8001, facts.StatusPassing))
	limit := func(service string, n int) chain.Entry {
		return &chain.ServiceDefaults{
			Header: chain.Header{Name: service},
			UpstreamConfig: &chain.UpstreamConfiguration{
				Defaults: &chain.UpstreamConfig{Limits: &chain.UpstreamLimits{MaxConnections: &n}},
			},
		}
	}
	f.entries(chain.KindServiceDefaults, limit("web", 7), limit("admin", 9))
	a, b := client("a", "api"), client("b", "api")
	other := client("c", "api")
	other.Service = "admin"
	if n := len(f.put(a).Products); n != 3 {
		t.Errorf("the first client made %d products, want 3", n)
	}
	if n := len(f.put(b).Products); n != 0 {
		t.Errorf("an equal client made %d products, want none", n)
	}
	d := f.put(other)
	if len(d.Products) != 1 {
		t.Fatalf("a client with other limits made %d products, want its cluster only", len(d.Products))
	}
	for key := range d.Products {
		if k, ok := key.(snapshot.ClusterKey); !ok || k.Limits.MaxConnections.Value != 9 {
			t.Errorf("made %+v, want a cluster with 9 connections", key)
		}
	}
}

func TestALateDatacenterDelaysOnlyItsOwnUpstream(t *testing.T) {
	f := loaded(t, snapshot.Config{}, "api")
	f.instances(facts.Health("dc1", "api"), confirmed, instance("api", "api-v1", 8001, facts.StatusPassing))
	f.store.Commit(func(tx *facts.Tx) { tx.Fail(facts.Services("dc2"), "no path to datacenter") })
	plan := f.put(client("p1", "api", "stock@dc2")).Plans["p1"]
	if plan.Hold != "" || plan.Complete() {
		t.Fatalf("hold=%q complete=%v, want a plan that is served in part", plan.Hold, plan.Complete())
	}
	if got := plan.Parts[1].Pending; !strings.Contains(got, "no path to datacenter") {
		t.Errorf("the pending upstream gives the reason %q", got)
	}
	if len(plan.Parts[0].Resources) == 0 {
		t.Error("the other upstream has no resources")
	}
}

func TestABrokenEntryKeepsTheLastGoodChain(t *testing.T) {
	f := loaded(t, snapshot.Config{}, "api")
	f.instances(facts.Health("dc1", "api"), confirmed, instance("api", "api-v1", 8001, facts.StatusPassing))
	f.entries(chain.KindServiceDefaults, &chain.ServiceDefaults{Header: chain.Header{Name: "api"}, Protocol: "http"})
	f.put(client("p1", "api"))
	f.update()
	before := names(f.cache.Plan("p1"))

	broken := &chain.ServiceSplitter{
		Header: chain.Header{Name: "api"},
		Splits: []chain.ServiceSplit{{Weight: 100, ServiceSubset: "nowhere"}},
	}
	f.entries(chain.KindServiceSplitter, broken)
	d := f.update()
	plan := f.cache.Plan("p1")
	if strings.Join(names(plan), ";") != strings.Join(before, ";") || len(d.Products) != 0 {
		t.Errorf("a broken entry changed what is served: %q, %d products", names(plan), len(d.Products))
	}
	if len(plan.Parts[0].Problems) == 0 {
		t.Error("the problem does not show in the plan")
	}
	f.entries(chain.KindServiceSplitter)
	f.update()
	if len(f.cache.Plan("p1").Parts[0].Problems) != 0 {
		t.Error("the problem stays after the entry is mended")
	}
}

func TestAChainThatNeverCompiledRefusesItsTraffic(t *testing.T) {
	f := loaded(t, snapshot.Config{}, "api")
	f.instances(facts.Health("dc1", "api"), confirmed, instance("api", "api-v1", 8001, facts.StatusPassing))
	f.entries(chain.KindServiceDefaults, &chain.ServiceDefaults{Header: chain.Header{Name: "api"}, Protocol: "http"})
	f.entries(chain.KindServiceSplitter, &chain.ServiceSplitter{
		Header: chain.Header{Name: "api"},
		Splits: []chain.ServiceSplit{{Weight: 100, ServiceSubset: "nowhere"}},
	})
	d := f.put(client("p1", "api"))
	for key, product := range d.Products {
		if r, ok := product.(snapshot.Routes); ok {
			if r.Chain != nil || !strings.Contains(r.Problem, "nowhere") {
				t.Errorf("%+v = %+v, want the problem in place of a chain", key, r)
			}
			return
		}
	}
	t.Errorf("no routes among %+v", d.Products)
}

func TestSuspectInstancesStayInTheSet(t *testing.T) {
	f := loaded(t, snapshot.Config{}, "api")
	topic := facts.Health("dc1", "api")
	f.instances(topic, confirmed, instance("api", "api-v1", 8001, facts.StatusPassing))
	f.put(client("p1", "api"))
	f.update()
	f.instances(topic, facts.Reading{})
	if d := f.update(); len(d.Products) != 0 || len(d.Plans) != 0 {
		t.Errorf("an unconfirmed empty answer changed %d products and %d plans", len(d.Products), len(d.Plans))
	}
	f.instances(topic, confirmed)
	d := f.update()
	for key, product := range d.Products {
		if set, ok := product.(snapshot.EndpointSet); !ok || len(set.Endpoints) != 0 {
			t.Errorf("%v = %+v, want an empty set once it is confirmed", key, product)
		}
	}
	if len(d.Products) != 1 || len(d.Plans) != 0 {
		t.Errorf("a confirmed removal changed %d products and %d plans, want 1 and 0", len(d.Products), len(d.Plans))
	}
}

func sidecar(id string, upstreams ...facts.Upstream) *facts.Instance {
	in := instance("web-sidecar-proxy", id, 21000, facts.StatusPassing)
	in.Service.Kind = "connect-proxy"
	in.Service.Proxy = &facts.Proxy{DestinationServiceName: "web", Upstreams: upstreams}
	return in
}

func TestAConnectedProxyKeepsWhatItHasWhenItsRegistrationIsGone(t *testing.T) {
	f := meshed(t, "api", "web")
	f.instances(facts.Connect("dc1", "api"), confirmed, instance("api", "api-v1", 21001, facts.StatusPassing))
	topic := facts.Proxies("dc1", "web")
	f.instances(topic, confirmed, sidecar("p", facts.Upstream{DestinationName: "api", LocalBindPort: 9191}))
	f.put(proved("p"))
	f.update()
	before, needs := names(f.cache.Plan("p")), len(f.cache.Plan("p").Needs)
	f.instances(topic, confirmed)
	f.update()
	plan := f.cache.Plan("p")
	if plan.Unregistered == "" || plan.Hold != "" || strings.Join(names(plan), ";") != strings.Join(before, ";") {
		t.Errorf("unregistered=%q hold=%q resources=%q", plan.Unregistered, plan.Hold, names(plan))
	}
	if len(plan.Needs) != needs {
		t.Errorf("needs %v: what is kept must be followed", plan.Needs)
	}
	f.put(proved("new"))
	if p := f.cache.Plan("new"); p.Unregistered == "" || len(p.Resources()) != 0 || p.Complete() {
		t.Errorf("a new client without registration: %+v", p)
	}
}

func TestFailoverLeavesOutWhatIsNotKnownYet(t *testing.T) {
	f := loaded(t, snapshot.Config{}, "api")
	f.instances(facts.Health("dc1", "api"), confirmed, instance("api", "api-v1", 8001, facts.StatusPassing))
	f.entries(chain.KindServiceResolver, &chain.ServiceResolver{
		Header:         chain.Header{Name: "api"},
		ConnectTimeout: time.Second,
		Failover:       map[string]chain.Failover{"*": {Datacenters: []string{"dc2"}}},
	})
	plan := f.put(client("p1", "api")).Plans["p1"]
	u := plan.Parts[0]
	if u.Pending != "" || len(u.Missing) != 1 {
		t.Fatalf("pending %q, missing %q", u.Pending, u.Missing)
	}
	f.store.Commit(func(tx *facts.Tx) {
		tx.Services("dc2", []string{"api"}, confirmed)
		tx.Instances(facts.Health("dc2", "api"), []*facts.Instance{instance("api", "api-far", 8003, facts.StatusPassing)}, confirmed)
	})
	plan = f.update().Plans["p1"]
	if u := plan.Parts[0]; len(u.Missing) != 0 || !strings.Contains(strings.Join(names(plan), ";"), "endpoints failover-target~1~api.default.dc1") {
		t.Errorf("missing %q, resources %q", u.Missing, names(plan))
	}
}

func TestDroppedClientsLeaveNothing(t *testing.T) {
	f := loaded(t, snapshot.Config{}, "api")
	f.instances(facts.Health("dc1", "api"), confirmed, instance("api", "api-v1", 8001, facts.StatusPassing))
	made := f.put(client("p1", "api"))
	f.put(client("p2", "api"))
	if d := f.cache.Drop("p1"); len(d.Dropped) != 0 {
		t.Errorf("dropped %v while another client has them", d.Dropped)
	}
	if d := f.cache.Drop("p2"); len(d.Dropped) != len(made.Products) {
		t.Errorf("dropped %d products, want %d", len(d.Dropped), len(made.Products))
	}
	if n := len(f.cache.Chains()); n != 0 {
		t.Errorf("%d chains are left", n)
	}
}

func TestAnUpstreamThatIsNotSupportedIsNamedAndHoldsNothingUp(t *testing.T) {
	f := meshed(t, "api", "web")
	f.instances(facts.Connect("dc1", "api"), confirmed, instance("api", "api-v1", 21001, facts.StatusPassing))
	f.instances(facts.Proxies("dc1", "web"), confirmed, sidecar("p",
		facts.Upstream{DestinationName: "far", DestinationPeer: "other", LocalBindPort: 9190},
		facts.Upstream{DestinationName: "api", LocalBindPort: 9191},
		facts.Upstream{DestinationName: "*", CentrallyConfigured: true}))
	plan := f.put(proved("p")).Plans["p"]
	if !plan.Complete() || len(plan.Parts) != 4 || len(plan.Parts[2].Missing) != 1 || len(plan.Parts[3].Resources) == 0 {
		t.Errorf("%+v", plan)
	}
}

func TestAnUpstreamNobodyKnowsIsNoted(t *testing.T) {
	f := loaded(t, snapshot.Config{}, "api")
	plan := f.put(client("p1", "apy")).Plans["p1"]
	if u := plan.Parts[0]; !plan.Complete() || len(u.Notes) != 1 || !strings.Contains(u.Notes[0], `"apy"`) {
		t.Errorf("%+v", plan)
	}
}

func TestTwoListenersOfOneServiceKeepTheirOwnLastGood(t *testing.T) {
	f := loaded(t, snapshot.Config{}, "api")
	f.instances(facts.Health("dc1", "api"), confirmed, instance("api", "api-v1", 8001, facts.StatusPassing))
	f.put(client("p1", "api", "api"))
	f.update()
	before := names(f.cache.Plan("p1"))
	f.entries(chain.KindServiceResolver, &chain.ServiceResolver{
		Header: chain.Header{Name: "api"}, Redirect: &chain.Redirect{Datacenter: "dc2"},
	})
	f.update()
	plan := f.cache.Plan("p1")
	if plan.Complete() || strings.Join(names(plan), ";") != strings.Join(before, ";") {
		t.Errorf("pending, with %q; had %q", names(plan), before)
	}
}
