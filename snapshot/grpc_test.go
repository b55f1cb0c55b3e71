package snapshot_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/snapshot"
)

func grpcClient(names ...string) snapshot.Client {
	return snapshot.Client{ID: "g", Service: "web", Dialect: snapshot.DialectGRPCNode, Names: names}
}

// partOf is the part of a client's plan that a name makes up.
func (f *fleet) partOf(c snapshot.Client, name string) *snapshot.Part {
	f.t.Helper()
	parts := f.put(c).Plans[c.ID].Parts
	i := slices.IndexFunc(parts, func(p *snapshot.Part) bool { return p.Name == name })
	if i < 0 {
		f.t.Fatalf("the plan has no part %q: %+v", name, parts)
	}
	return parts[i]
}

func keyOf[K snapshot.Key](p *snapshot.Part) (found K, ok bool) {
	for _, ref := range p.Resources {
		if k, is := ref.Key.(K); is {
			return k, true
		}
	}
	return found, false
}

func TestNamesOfGRPCClients(t *testing.T) {
	f := loaded(t, snapshot.Config{}, "api")
	for _, test := range []struct{ name, service, datacenter string }{
		{"api", "api", "dc1"},
		{"api:8080", "api", "dc1"},
		{"api.service.consul", "api", "dc1"},
		{"api.service.consul.", "api", "dc1"},
		{"api.service.dc1.consul", "api", "dc1"},
		{"api.service.dc2.consul:443", "api", "dc2"},
		{"api.service.dc2.dc.consul", "api", "dc2"},
		{"api.v1", "api.v1", "dc1"},
		{"service.service.consul", "service", "dc1"},
		{"", "", ""},
		{":80", "", ""},
		{"api:http", "", ""},
		{"api:99999", "", ""},
		{"a/b", "", ""},
		{"xdstp://catenary/envoy.config.listener.v3.Listener/api", "", ""},
		{"..", "", ""},
		{"v1.api.service.consul", "", ""},
		{"api.query.consul", "", ""},
		{"node.consul", "", ""},
		{strings.Repeat("a", 257), "", ""},
	} {
		p := f.partOf(grpcClient(test.name), test.name)
		k, ok := keyOf[snapshot.APIListenerKey](p)
		if test.service == "" {
			if !ok || k.Routes != "" || len(p.Missing) == 0 {
				t.Errorf("%q is no name of a service: %+v", test.name, p)
			}
			continue
		}
		if test.datacenter != "dc1" { // it is not known yet, and followed
			if topic := facts.Services(test.datacenter); p.Pending == "" || !slices.Contains(f.cache.Plan("g").Needs, topic) {
				t.Errorf("%q does not follow %v: %+v", test.name, topic, p)
			}
			continue
		}
		f.instances(facts.Health("dc1", test.service), confirmed)
		f.update()
		p = f.partOf(grpcClient(test.name), test.name)
		routes, _ := keyOf[snapshot.GRPCRoutesKey](p)
		if p.Pending != "" || routes.Chain.Service != test.service || routes.Chain.Datacenter != test.datacenter {
			t.Errorf("%q: %+v", test.name, p)
		}
	}
}

func TestNamesOfOneServiceShareAllButTheListener(t *testing.T) {
	f := loaded(t, snapshot.Config{}, "api")
	f.instances(facts.Health("dc1", "api"), confirmed, instance("api", "api-v1", 1, facts.StatusPassing))
	envoy := client("e", "api")
	f.put(envoy)
	d := f.put(grpcClient("api", "api:443"))
	kinds := map[string]int{}
	for key := range d.Products {
		kinds[key.Product()]++
	}
	if len(d.Plans["g"].Resources()) != 5 || kinds[snapshot.ProductListener] != 2 || kinds[snapshot.ProductRoutes] != 1 ||
		kinds[snapshot.ProductCluster] != 1 || kinds[snapshot.ProductEndpoints] != 0 {
		t.Errorf("made %v for %+v: the endpoints are those of Envoy", kinds, d.Plans["g"].Resources())
	}
}

func TestAGRPCClientIsToldOnlyWhatItMayRead(t *testing.T) {
	f := loaded(t, snapshot.Config{}, "api", "stock")
	for _, s := range []string{"api", "stock"} {
		f.instances(facts.Health("dc1", s), confirmed)
	}
	c := grpcClient("api", "stock")
	c.Reader = "r1"
	if p := f.partOf(c, "api"); p.Pending == "" || len(p.Resources) > 0 {
		t.Errorf("before the right is known: %+v", p)
	}
	f.store.Commit(func(tx *facts.Tx) {
		tx.Right(facts.Rights("r1", "api"), false)
		tx.Right(facts.Rights("r1", "stock"), true)
	})
	f.update()
	p := f.partOf(c, "api")
	if k, ok := keyOf[snapshot.APIListenerKey](p); !ok || k.Routes != "" || len(p.Resources) != 1 || len(p.Missing) == 0 {
		t.Errorf("a service that it must not read: %+v", p)
	}
	if p := f.partOf(c, "stock"); p.Pending != "" || len(p.Resources) != 4 {
		t.Errorf("a service that it may read: %+v", p)
	}
}

func TestAGRPCClientOfTheMeshDialsIdentities(t *testing.T) {
	f := loaded(t, snapshot.Config{}, "api")
	f.instances(facts.Connect("dc1", "api"), confirmed, instance("api", "api-v1", 1, facts.StatusPassing))
	c := grpcClient("api")
	c.Mesh = true
	p := f.partOf(c, "api")
	k, _ := keyOf[snapshot.GRPCClusterKey](p)
	tls, ok := k.Transport.(snapshot.MutualTLS)
	if !ok || tls.Peer != "spiffe://catenary.local/ns/default/dc/dc1/svc/api" {
		t.Errorf("dials %+v", k.Transport)
	}
	if set, _ := keyOf[snapshot.EndpointSetKey](p); set.Topic != facts.Connect("dc1", "api") {
		t.Errorf("dials those of %v", set.Topic)
	}
}

func TestWhatGRPCClientsCannotDoIsSaid(t *testing.T) {
	f := loaded(t, snapshot.Config{}, "api")
	f.instances(facts.Health("dc1", "api"), confirmed)
	f.entries(chain.KindServiceDefaults, &chain.ServiceDefaults{Header: chain.Header{Name: "api"}, Protocol: "http"},
		&chain.ServiceDefaults{Header: chain.Header{Name: "web"}, UpstreamConfig: &chain.UpstreamConfiguration{
			Defaults: &chain.UpstreamConfig{
				Limits:             &chain.UpstreamLimits{MaxConnections: new(int), MaxConcurrentRequests: new(int)},
				PassiveHealthCheck: &chain.PassiveHealthCheck{MaxFailures: 3, Interval: time.Second},
			},
		}})
	f.entries(chain.KindServiceResolver, &chain.ServiceResolver{Header: chain.Header{Name: "api"}, LoadBalancer: &chain.LoadBalancer{
		Policy: "least_request", LeastRequestConfig: &chain.LeastRequestConfig{ChoiceCount: 1},
	}})
	f.entries(chain.KindServiceRouter, &chain.ServiceRouter{Header: chain.Header{Name: "api"}, Routes: []chain.ServiceRoute{{
		Match: &chain.RouteMatch{HTTP: &chain.HTTPMatch{PathPrefix: "/a"}},
		Destination: &chain.RouteDestination{
			PrefixRewrite: "/b", IdleTimeout: time.Second, RetryOn: []string{"retriable-4xx", "5xx"}, RetryOnStatusCodes: []uint32{418, 503},
			RequestHeaders: &chain.HeaderModifiers{Add: map[string]string{"x": "y"}},
		},
	}}})
	p := f.partOf(grpcClient("api"), "api")
	notes := strings.Join(p.Notes, "\n")
	for _, want := range []string{
		"PrefixRewrite", "IdleTimeout", "retriable-4xx", "418", "RequestHeaders", "least_request is round_robin", "max_connections", "consecutive failures",
	} {
		if !strings.Contains(notes, want) {
			t.Errorf("nobody is told of %s:\n%s", want, notes)
		}
	}
	k, _ := keyOf[snapshot.GRPCClusterKey](p)
	if k.LoadBalancer.LeastRequestsChoices != 2 || !k.MaxRequests.Set || k.Outlier.MaxFailures != 3 {
		t.Errorf("the cluster is %+v", k)
	}
	state, _ := f.cache.Chain(snapshot.ChainKey{Service: "api", Datacenter: "dc1"})
	routes, _ := snapshot.GRPCRoutes(state.Chain)
	if len(routes) != 2 || !slices.Equal(routes[0].RetryOn, []string{"unavailable"}) || routes[0].Retries != 1 {
		t.Errorf("the routes are %+v", routes)
	}
}
