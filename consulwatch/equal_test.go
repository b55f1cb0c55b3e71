package consulwatch

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/consul/api"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// A history of writes with everything that a registration can hold ends in the same facts, whichever way
// it was followed; indexes count.
func TestEventsAndQueriesTellTheSame(t *testing.T) {
	t.Parallel()
	c := testenv.StartConsul(t)
	services := []string{"api", "web", "db"}
	var topics []facts.Topic
	for _, s := range services {
		topics = append(topics, facts.Health("dc1", s), facts.Connect("dc1", s), facts.Proxies("dc1", s))
	}
	rigs := map[Follow]*rig{}
	for _, how := range []Follow{FollowStream, FollowPoll} {
		cfg := with(c, "")
		cfg.Follow = how
		rigs[how] = run(t, cfg)
		rigs[how].store.Need("test", topics...)
		rigs[how].ready("dc1")
	}
	c.WriteEntry(`{"Kind":"proxy-defaults","Name":"global","Config":{"protocol":"http"}}`) // routers want it
	h := &writes{c: c, rand: rand.New(rand.NewPCG(1, 2)), services: services, there: map[string]*api.CatalogRegistration{}}
	for range 20 {
		for range 10 {
			h.write()
		}
		h.mark++
		c.WriteEntry(fmt.Sprintf(`{"Kind":"service-defaults","Name":"mark","Protocol":"http","Meta":{"n":"%d"}}`, h.mark))
		testenv.Eventually(t, soon, func() error {
			a, b := told(rigs[FollowStream].store.View(), topics), told(rigs[FollowPoll].store.View(), topics)
			if a.Mark != fmt.Sprint(h.mark) || b.Mark != a.Mark {
				return fmt.Errorf("the marks are %s and %s", a.Mark, b.Mark)
			}
			if len(a.Instances["health/dc1/api"]) != h.count("api") {
				return fmt.Errorf("%d instances of api; want %d", len(a.Instances["health/dc1/api"]), h.count("api"))
			}
			if diff := cmp.Diff(b, a); diff != "" {
				return fmt.Errorf("- queries, + events:\n%s", diff)
			}
			return nil
		})
	}
}

// tale is what a store has, as the test compares it.
type tale struct {
	Instances map[string][]*facts.Instance
	States    map[string]string
	Services  []string
	Entries   []chain.Entry
	Mark      string
}

func told(v facts.View, topics []facts.Topic) tale {
	s := tale{Instances: map[string][]*facts.Instance{}, States: map[string]string{}, Services: v.AllServices("dc1")}
	for _, topic := range topics {
		list, state := v.Instances(topic)
		s.Instances[topic.String()], s.States[topic.String()] = list, state.String()
	}
	for _, kind := range chain.AllKinds() {
		s.Entries = append(s.Entries, v.AllEntries(kind)...)
	}
	if e, _ := v.Entry(chain.KindServiceDefaults, "mark"); e != nil {
		s.Mark = e.Head().Meta["n"]
	}
	return s
}

// writes is a random history.
type writes struct {
	c        *testenv.Consul
	rand     *rand.Rand
	services []string
	there    map[string]*api.CatalogRegistration // by service ID
	mark     int
}

func (h *writes) count(service string) int {
	n := 0
	for _, r := range h.there {
		if r.Service.Service == service {
			n++
		}
	}
	return n
}

func (h *writes) one(of ...string) string { return of[h.rand.IntN(len(of))] }

func (h *writes) write() {
	service := h.one(h.services...)
	id := fmt.Sprintf("%s-%d", service, h.rand.IntN(4))
	switch h.rand.IntN(8) {
	case 0, 1, 2:
		h.register(service, id)
	case 3:
		h.register(service+"-sidecar-proxy", id+"-sidecar-proxy")
	case 4, 5:
		for id := range h.there {
			h.c.SetCheck(id, h.one(api.HealthPassing, api.HealthWarning, api.HealthCritical))
			return
		}
	case 6:
		for id := range h.there {
			h.c.Deregister(id)
			delete(h.there, id)
			return
		}
	case 7:
		h.entry(service)
	}
}

// entry writes or deletes an entry of any kind.
func (h *writes) entry(service string) {
	meta := fmt.Sprintf(`"Meta":{"n":"%d"}`, h.rand.IntN(9))
	switch h.rand.IntN(7) {
	case 0:
		h.c.WriteEntry(fmt.Sprintf(`{"Kind":"service-defaults","Name":%q,"Protocol":"http",%s}`, service, meta))
	case 1:
		h.c.WriteEntry(fmt.Sprintf(`{"Kind":"service-resolver","Name":%q,"Subsets":{"v1":{"Filter":"Service.Meta.version == v1"}},%s}`, service, meta))
	case 2:
		h.c.WriteEntry(fmt.Sprintf(`{"Kind":"service-intentions","Name":%q,"Sources":[{"Name":"x","Action":%q}],%s}`, service, h.one("allow", "deny"), meta))
	case 3:
		h.c.WriteEntry(fmt.Sprintf(`{"Kind":"mesh","TLS":{"Incoming":{"TLSMinVersion":%q}},%s}`, h.one("TLSv1_2", "TLSv1_3"), meta))
	case 4:
		h.c.WriteEntry(fmt.Sprintf(`{"Kind":"proxy-defaults","Name":"global","Config":{"protocol":"http","n":%d},%s}`, h.rand.IntN(9), meta))
	case 5:
		h.c.WriteEntry(fmt.Sprintf(`{"Kind":"service-router","Name":%q,"Routes":[{"Match":{"HTTP":{"PathPrefix":%q}}}],%s}`, service, h.one("/a", "/b"), meta))
	case 6:
		h.c.DeleteEntry(h.one("service-resolver", "service-intentions", "service-router"), service)
	}
}

func (h *writes) register(service, id string) {
	node := "node-" + h.one("1", "2", "3") + "-" + id // an ID is on one node here
	if before := h.there[id]; before != nil {
		node = before.Node
	}
	s := &api.AgentService{
		ID: id, Service: service, Address: h.one("", "127.0.0.1", "10.0.0.1"), Port: h.rand.IntN(1000),
		Tags: []string{h.one("a", "b"), h.one("c", "d")}, Meta: map[string]string{"version": h.one("v1", "v2")},
		Weights: api.AgentWeights{Passing: 1 + h.rand.IntN(5), Warning: h.rand.IntN(3)}, EnableTagOverride: h.rand.IntN(2) == 0,
		TaggedAddresses: map[string]api.ServiceAddress{"lan": {Address: "10.0.0.2", Port: 5}},
	}
	if h.rand.IntN(2) == 0 {
		s.Locality = &api.Locality{Region: "eu", Zone: h.one("a", "b")}
	}
	switch {
	case len(service) > len("-sidecar-proxy"):
		h.sidecar(s)
	case id[len(id)-1] == '0': // always: Consul sends no event when an instance ceases to be native
		s.Connect = &api.AgentServiceConnect{Native: true}
	}
	r := &api.CatalogRegistration{
		Node: node, Address: "127.0.0.1", NodeMeta: map[string]string{"rack": h.one("1", "2")},
		TaggedAddresses: map[string]string{"wan": "192.0.2.1"}, Service: s,
		Checks: api.HealthChecks{
			{
				Node: node, CheckID: "service:" + id, Name: "check", ServiceID: id, Status: h.one(api.HealthPassing, api.HealthCritical), Notes: "notes", Output: "out", Type: "http",
				Definition: api.HealthCheckDefinition{
					HTTP: h.one("", "http://127.0.0.1/x"), TCP: h.one("", "127.0.0.1:1"), GRPC: h.one("", "127.0.0.1:2/s"), TCPUseTLS: true, GRPCUseTLS: true,
					Method: "GET", Body: "b", Header: map[string][]string{"X-A": {"b", "c"}}, IntervalDuration: 2 * time.Second, TimeoutDuration: time.Second,
				},
			},
		},
	}
	h.c.Register(r)
	h.there[id] = r
}

func (h *writes) sidecar(s *api.AgentService) {
	s.Kind = api.ServiceKindConnectProxy
	s.Proxy = &api.AgentServiceConnectProxyConfig{
		DestinationServiceName: s.Service[:len(s.Service)-len("-sidecar-proxy")], DestinationServiceID: "x",
		LocalServiceAddress: "127.0.0.1", LocalServicePort: h.rand.IntN(100), Mode: api.ProxyModeDirect,
		Config:      map[string]any{"n": float64(h.rand.IntN(3)), "deep": map[string]any{"list": []any{"a", true, 1.5}}},
		MeshGateway: api.MeshGatewayConfig{Mode: api.MeshGatewayModeLocal},
		Expose:      api.ExposeConfig{Checks: true, Paths: []api.ExposePath{{ListenerPort: 1, Path: "/p", LocalPathPort: 2, Protocol: "http2"}}},
		Upstreams: []api.Upstream{
			{
				DestinationName: h.one("api", "db"), LocalBindPort: 9191, LocalBindAddress: "127.0.0.2", Datacenter: "dc2",
				Config: map[string]any{"protocol": "http"}, MeshGateway: api.MeshGatewayConfig{Mode: api.MeshGatewayModeRemote},
			},
			{DestinationName: "peered", DestinationPeer: "p", LocalBindSocketPath: "/s", LocalBindSocketMode: "0600"},
		},
	}
}
