package snapshot_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/snapshot"
)

// meshed is a fleet of which the sidecars of web can be given their identity.
func meshed(t *testing.T, services ...string) *fleet {
	f := loaded(t, snapshot.Config{}, services...)
	f.store.Commit(func(tx *facts.Tx) {
		tx.Roots(facts.Roots{TrustDomain: "catenary.local", List: []facts.Root{{ID: "r", Cert: "CERT", Active: true}}})
		tx.Leaf(facts.LeafOf("web"), facts.Leaf{Service: "web", Serial: "1"})
		tx.DefaultIntention(true)
	})
	return f
}

// proved is a sidecar of web that has proved to be one.
func proved(id string) snapshot.Client { return snapshot.Client{ID: id, Service: "web", Proved: true} }

func TestASidecarDialsTheMeshWithItsIdentityAndNotInPlaintext(t *testing.T) {
	f := meshed(t, "api", "db", "web")
	f.instances(facts.Connect("dc1", "api"), confirmed, instance("api", "api-v1", 21001, facts.StatusPassing))
	f.instances(facts.Connect("dc1", "db"), confirmed, instance("db", "db-v1", 21002, facts.StatusPassing))
	f.entries(chain.KindServiceResolver, &chain.ServiceResolver{
		Header: chain.Header{Name: "api"}, Failover: map[string]chain.Failover{"*": {Service: "db"}},
	})
	f.instances(facts.Proxies("dc1", "web"), confirmed,
		sidecar("p", facts.Upstream{DestinationName: "api", LocalBindPort: 9191}))
	plan := f.put(proved("p")).Plans["p"]
	dialled := map[string]string{}
	for _, r := range plan.Resources() {
		switch k := r.Key.(type) {
		case snapshot.EndpointSetKey:
			if k.Topic.Kind != facts.TopicConnect {
				t.Errorf("a mesh client dials %s", k.Topic)
			}
		case snapshot.ClusterKey:
			tls, ok := k.Transport.(snapshot.MutualTLS)
			if !ok {
				t.Errorf("%s is dialled by %#v", k.Name, k.Transport)
			}
			dialled[tls.SNI] = tls.Peer
		}
	}
	const who = "spiffe://catenary.local/ns/default/dc/dc1/svc/"
	want := map[string]string{"api.default.dc1.internal.catenary.local": who + "api", "db.default.dc1.internal.catenary.local": who + "db"}
	if plan.Kind != snapshot.Mesh || !maps.Equal(dialled, want) {
		t.Errorf("a %s client, hold %q, dials %v, want %v", plan.Kind, plan.Hold, dialled, want)
	}
}

func TestASidecarWaitsForWhatTheMeshSaysOfTLS(t *testing.T) {
	f := meshed(t, "api", "web")
	f.store.Commit(func(tx *facts.Tx) { tx.Forget(facts.Entries(chain.KindMesh)) })
	f.instances(facts.Connect("dc1", "api"), confirmed, instance("api", "api-v1", 21001, facts.StatusPassing))
	f.instances(facts.Proxies("dc1", "web"), confirmed, sidecar("p", facts.Upstream{DestinationName: "api", LocalBindPort: 9191}))
	plan := f.put(proved("p")).Plans["p"]
	for _, part := range plan.Parts {
		if part.Name == "api" && (part.Pending == "" || len(part.Resources) > 0) {
			t.Errorf("api does not wait for the mesh entry: %+v", part)
		}
	}
}

func TestOneIDOnSeveralNodesIsToldApartByTheNodeAndThenByTheAddress(t *testing.T) {
	on := func(node, address string) *facts.Instance {
		in := sidecar("p", facts.Upstream{DestinationName: "api", LocalBindPort: 9191})
		in.Node = facts.Node{Node: node, Address: address}
		in.Service.Meta = map[string]string{"node": node}
		return in
	}
	for name, c := range map[string]struct {
		rows   []*facts.Instance
		client snapshot.Client
		want   string // why it is not registered
	}{
		"by its node":                   {[]*facts.Instance{on("a", "10.0.0.1"), on("b", "10.0.0.2")}, snapshot.Client{Node: "b"}, ""},
		"by where it comes from":        {[]*facts.Instance{on("a", "10.0.0.1"), on("b", "10.0.0.2")}, snapshot.Client{Address: "10.0.0.2"}, ""},
		"by an address in another form": {[]*facts.Instance{on("a", "2001:db8:0::1"), on("b", "10.0.0.2")}, snapshot.Client{Address: "2001:db8::1"}, ""},
		"the only one, from anywhere":   {[]*facts.Instance{on("a", "10.0.0.1")}, snapshot.Client{Address: "192.0.2.1"}, ""},
		"from elsewhere": {
			[]*facts.Instance{on("a", "10.0.0.1"), on("b", "10.0.0.2")},
			snapshot.Client{Address: "192.0.2.1"},
			"2 registrations of this ID: pass -node-name",
		},
		"two nodes at the address": {
			[]*facts.Instance{on("a", "10.0.0.1"), on("b", "10.0.0.1"), on("c", "10.0.0.3")},
			snapshot.Client{Address: "10.0.0.1"},
			"3 registrations of this ID: pass -node-name",
		},
		"of a node that has none": {
			[]*facts.Instance{on("a", "10.0.0.1")},
			snapshot.Client{Node: "z"},
			`no sidecar with the ID "p" is registered for service "web"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := meshed(t, "api", "web")
			f.instances(facts.Connect("dc1", "api"), confirmed, instance("api", "api-v1", 21001, facts.StatusPassing))
			f.instances(facts.Proxies("dc1", "web"), confirmed, c.rows...)
			client := proved("p")
			client.Node, client.Address = c.client.Node, c.client.Address
			plan := f.put(client).Plans["p"]
			if !strings.HasPrefix(plan.Unregistered, c.want) || (c.want == "") != (plan.Unregistered == "") {
				t.Errorf("unregistered: %q, want %q", plan.Unregistered, c.want)
			}
		})
	}
}

// gateway is a mesh gateway with an address in the WAN.
func gateway(n int, status facts.CheckStatus) *facts.Instance {
	in := instance("gateway", fmt.Sprintf("gateway-%d", n), 8443, status)
	in.Service.Kind = "mesh-gateway"
	in.Service.Address = fmt.Sprintf("10.0.0.%d", n)
	in.Service.TaggedAddresses = map[string]facts.Address{"wan": {Address: fmt.Sprintf("198.18.0.%d", n), Port: 443}}
	return in
}

// dialled is the endpoints of the only set of which a name begins so.
func (f *fleet) dialled(client, prefix string) string {
	f.t.Helper()
	for _, ref := range f.cache.Plan(client).Resources() {
		if _, ok := ref.Key.(snapshot.EndpointSetKey); !ok || !strings.HasPrefix(ref.Name, prefix) {
			continue
		}
		product, ok := f.cache.Product(ref.Key)
		if !ok {
			return "nothing yet"
		}
		var list []string
		for _, e := range product.(snapshot.EndpointSet).Endpoints {
			list = append(list, fmt.Sprintf("%s:%d %s", e.Address, e.Port, e.Health))
		}
		return strings.Join(list, ", ")
	}
	return "no set"
}

func TestGatewaysFollowTheInstancesBehindThem(t *testing.T) {
	f := meshed(t, "web")
	f.instances(facts.Proxies("dc1", "web"), confirmed, sidecar("p",
		facts.Upstream{DestinationName: "api", Datacenter: "dc2", LocalBindPort: 9191, MeshGateway: chain.MeshGateway{Mode: chain.MeshGatewayLocal}},
		facts.Upstream{DestinationName: "db", Datacenter: "dc2", LocalBindPort: 9192, MeshGateway: chain.MeshGateway{Mode: chain.MeshGatewayRemote}}))
	f.store.Commit(func(tx *facts.Tx) { tx.Services("dc2", []string{"api", "db"}, confirmed) })
	for _, service := range []string{"api", "db"} {
		f.instances(facts.Connect("dc2", service), confirmed, instance(service, service, 21000, facts.StatusPassing))
	}
	f.put(proved("p"))
	f.update()
	const local, remote = "c225dc1c~api.", "dd412229~db."
	if got := f.dialled("p", local); got != "no set" {
		t.Errorf("before the gateways are known: %s", got)
	}
	f.instances(facts.Gateways("dc1"), confirmed, gateway(1, facts.StatusPassing))
	f.instances(facts.Gateways("dc2"), confirmed, gateway(2, facts.StatusCritical))
	for _, step := range []struct {
		name          string
		change        func()
		local, remote string
	}{
		{"all is well", func() {}, "10.0.0.1:8443 HEALTHY", "198.18.0.2:443 HEALTHY"},
		{"the instances are ill", func() {
			f.instances(facts.Connect("dc2", "api"), confirmed, instance("api", "api", 21000, facts.StatusCritical))
			f.instances(facts.Connect("dc2", "db"), confirmed)
		}, "10.0.0.1:8443 UNHEALTHY", "198.18.0.2:443 UNHEALTHY"},
		{"there is one more gateway, and one well instance", func() {
			f.instances(facts.Gateways("dc1"), confirmed, gateway(1, facts.StatusPassing), gateway(3, facts.StatusCritical))
			f.instances(facts.Connect("dc2", "api"), confirmed,
				instance("api", "api", 21000, facts.StatusCritical), instance("api", "api-2", 21001, facts.StatusPassing))
		}, "10.0.0.1:8443 HEALTHY, 10.0.0.3:8443 HEALTHY", "198.18.0.2:443 UNHEALTHY"},
		{"there is no gateway", func() { f.instances(facts.Gateways("dc1"), confirmed) }, "", "198.18.0.2:443 UNHEALTHY"},
	} {
		step.change()
		before := f.cache.Counts().Plans
		f.update()
		if got := f.dialled("p", local); got != step.local {
			t.Errorf("%s: through those at home %q, want %q", step.name, got, step.local)
		}
		if got := f.dialled("p", remote); got != step.remote {
			t.Errorf("%s: through those far away %q, want %q", step.name, got, step.remote)
		}
		if ran := f.cache.Counts().Plans - before; ran != 0 {
			t.Errorf("%s: %d plans ran", step.name, ran)
		}
	}
}

func TestTheConfigurationOfAnUpstreamIsWeaklyTyped(t *testing.T) {
	f := meshed(t, "api", "web")
	f.instances(facts.Connect("dc1", "api"), confirmed, instance("api", "api-v1", 21001, facts.StatusPassing))
	for name, c := range map[string]struct {
		config map[string]any
		want   snapshot.Limits
		ms     int
	}{
		"numbers as text": {map[string]any{"connect_timeout_ms": "1500", "limits": map[string]any{"max_connections": "3"}}, snapshot.Limits{MaxConnections: limited(3)}, 1500},
		"other spellings": {map[string]any{"Connect_Timeout_Ms": 1500.0, "Limits": map[string]any{"MaxConnections": 3}}, snapshot.Limits{MaxConnections: limited(3)}, 1500},
		"without underscores a timeout means nothing, as in Consul": {map[string]any{"ConnectTimeoutMs": 1500}, snapshot.Limits{}, 5000},
		"below 0 is no limit": {map[string]any{"limits": map[string]any{"max_pending_requests": -1}}, snapshot.Limits{MaxPendingRequests: limited(1<<32 - 1)}, 5000},
		"0 is a limit":        {map[string]any{"limits": map[string]any{"max_concurrent_requests": 0}}, snapshot.Limits{MaxConcurrentRequests: limited(0)}, 5000},
		"nonsense leaves what is beside it": {map[string]any{
			"connect_timeout_ms": "soon", "limits": map[string]any{"max_connections": []any{1, 2}, "max_pending_requests": 4},
		}, snapshot.Limits{MaxPendingRequests: limited(4)}, 5000},
		"no map at all": {map[string]any{"limits": "none", "passive_health_check": 7}, snapshot.Limits{}, 5000},
	} {
		f.instances(facts.Proxies("dc1", "web"), confirmed,
			sidecar("p", facts.Upstream{DestinationName: "api", LocalBindPort: 9191, Config: c.config}))
		plan := f.put(proved("p")).Plans["p"]
		found := false
		for _, ref := range plan.Resources() {
			if k, ok := ref.Key.(snapshot.ClusterKey); ok {
				found = true
				if k.Limits != c.want || k.ConnectTimeout.Milliseconds() != int64(c.ms) {
					t.Errorf("%s: limits %+v within %s, want %+v within %d ms", name, k.Limits, k.ConnectTimeout, c.want, c.ms)
				}
			}
		}
		if !found {
			t.Errorf("%s: there is no cluster: %+v", name, plan.Parts)
		}
	}
}

func limited(n uint32) snapshot.Limit { return snapshot.Limit{Set: true, Value: n} }
