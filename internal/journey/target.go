package journey

import (
	"fmt"
	"strings"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/chain/explain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/snapshot"
)

// Target is a set of instances that requests can go to.
type Target struct {
	ID string
	// From is the entry that made it, such as "service-resolver/api (shop.hcl:12)"; empty when none did.
	From string `json:",omitempty"`
	// Cluster is what Envoy calls it.
	Cluster string
	// State is how well its instances are known: unknown, present, absent or suspect, and Reason why they are
	// not.
	State  string
	Reason string `json:",omitempty"`
	// Healthy and Total count its endpoints; what is left out does not count.
	Healthy, Total int
	// Outside is how many instances of the service are not in the subset, whose filter is Filter.
	Outside int    `json:",omitempty"`
	Filter  string `json:",omitempty"`
	// Without says that it is taken to have no healthy endpoint.
	Without bool `json:",omitempty"`
	// Failover are the targets that take over, in order; and Then where its requests go when it has no healthy
	// endpoint. Both are empty for a target that is only failed over to.
	Failover  []string   `json:",omitempty"`
	Then      []Share    `json:",omitempty"`
	Endpoints []Endpoint `json:",omitempty"`

	// levels are its own endpoints and those that take over; nil while they are not known.
	levels []level
	first  bool // requests come here otherwise than by failover
}

// level is one member of a failover, or the target itself.
type level struct{ target *Target }

// Endpoint is an instance, and what clients are told of it.
type Endpoint struct {
	ID      string
	Node    string
	Address string
	Port    uint32
	// Health is HEALTHY, UNHEALTHY or LEFT OUT.
	Health string
	Weight uint32
	// Percent is its share of the requests that its target gets.
	Percent float64
	// Why says what decided its health.
	Why string
}

// leftOut is the health of an instance that clients are not told of.
const leftOut = "LEFT OUT"

// targets lists those that the steps lead to, each once.
func (m *maker) targets(s *explain.Step) {
	if (s.Kind == explain.KindTarget || s.Kind == explain.KindFailover) && m.chain.Targets[s.Name] != nil {
		t := m.known[s.Name]
		if t == nil {
			t = m.target(m.chain.Targets[s.Name], s.From)
			m.known[s.Name] = t
			m.Targets = append(m.Targets, t)
		}
		t.first = t.first || s.Kind == explain.KindTarget
	}
	for _, next := range s.Next {
		m.targets(next)
	}
}

// target describes a target without what depends on others.
func (m *maker) target(ct *chain.Target, from string) *Target {
	t := &Target{
		ID: ct.ID, From: from, Cluster: snapshot.ClusterName(m.chain, ct), State: facts.Unknown.String(),
		Filter: ct.Subset.Filter,
	}
	key, ok := m.endpointSet(ct)
	if !ok {
		t.Reason = "it is not served"
		if m.Pending != "" {
			t.Reason = m.Pending
		}
		return t
	}
	list, state := m.view.Instances(key.Topic)
	t.State = state.String()
	if state == facts.Unknown {
		t.Reason = m.view.Why(facts.ID{Topic: key.Topic})
		return t
	}
	if len(list) == 0 {
		t.Reason = fmt.Sprintf("no instance of the service %q is registered in %s", ct.Service, ct.Datacenter)
		return t
	}
	m.endpoints(t, ct, key)
	return t
}

// endpointSet is that of a target: as its own cluster, or as a member of a failover.
func (m *maker) endpointSet(ct *chain.Target) (snapshot.EndpointSetKey, bool) {
	if key, ok := m.clusters[snapshot.ClusterName(m.chain, ct)]; ok {
		return key, true
	}
	for _, node := range m.chain.Nodes {
		for i, id := range members(node) {
			if id != ct.ID {
				continue
			}
			cluster := snapshot.ClusterName(m.chain, m.chain.Targets[node.Resolver.Target])
			if key, ok := m.clusters[snapshot.FailoverName(i, cluster)]; ok {
				return key, true
			}
		}
	}
	return snapshot.EndpointSetKey{}, false
}

// members are the targets of a resolver that fails over, in order.
func members(node *chain.Node) []string {
	if node.Resolver == nil || node.Resolver.Failover == nil || len(node.Resolver.Failover.Targets) == 0 {
		return nil
	}
	return append([]string{node.Resolver.Target}, node.Resolver.Failover.Targets...)
}

// endpoints fills in the instances of a target, and how they share its requests.
func (m *maker) endpoints(t *Target, ct *chain.Target, key snapshot.EndpointSetKey) {
	list, outside := key.Members(m.view)
	t.Outside = outside
	sum, random := uint32(0), m.random(ct.ID)
	for _, member := range list {
		e := describe(member, key)
		if member.Left == "" {
			t.Total++
		}
		if e.Health == string(snapshot.Healthy) {
			t.Healthy++
			sum += weight(e, random)
		}
		t.Endpoints = append(t.Endpoints, e)
	}
	for i := range t.Endpoints {
		if e := &t.Endpoints[i]; e.Health == string(snapshot.Healthy) {
			e.Percent = round(100 * float64(weight(*e, random)) / float64(sum))
		}
	}
}

// weight is how much an endpoint counts: a random choice minds no weights.
func weight(e Endpoint, random bool) uint32 {
	if random {
		return 1
	}
	return e.Weight
}

// random reports whether the endpoints of a target are chosen at random.
func (m *maker) random(id string) bool {
	for _, node := range m.chain.Nodes {
		if node.Resolver != nil && node.Resolver.Target == id && node.LoadBalancer != nil {
			return node.LoadBalancer.Policy == "random"
		}
	}
	return false
}

func describe(m snapshot.Member, key snapshot.EndpointSetKey) Endpoint {
	e := Endpoint{
		ID: m.Instance.Service.ID, Node: m.Instance.Node.Node, Address: m.Endpoint.Address, Port: m.Endpoint.Port,
		Health: string(m.Endpoint.Health), Weight: m.Endpoint.Weight, Why: why(m, key),
	}
	if m.Left != "" {
		e.Health = leftOut
	}
	return e
}

// why says what decided the health of an endpoint: the first check of the worst status.
func why(m snapshot.Member, key snapshot.EndpointSetKey) string {
	in := m.Instance
	worst := snapshot.WorstStatus(in)
	var at []string
	for _, c := range in.Checks {
		if c.Status == worst || worst == facts.StatusCritical && c.Status != facts.StatusPassing && c.Status != facts.StatusWarning {
			at = append(at, checkName(c))
		}
	}
	of := strings.Join(at, ", ")
	switch {
	case m.Left != "":
		return m.Left
	case key.Gateways != (facts.Topic{}) && m.Endpoint.Health == snapshot.Unhealthy:
		return "a gateway: no instance behind it is healthy"
	case key.Gateways != (facts.Topic{}):
		return "a gateway, healthy as an instance behind it is"
	case snapshot.InMaintenance(in):
		return "in maintenance: " + of
	case worst == facts.StatusCritical:
		return "critical: " + of
	case worst == facts.StatusWarning && key.OnlyPassing:
		return "warning, where the subset takes only passing instances: " + of
	case m.Endpoint.Health == snapshot.Unhealthy:
		return fmt.Sprintf("its weight while %s is 0", worst)
	case worst == facts.StatusWarning:
		return "warning, with the weight of that: " + of
	case len(in.Checks) == 0:
		return "it has no checks"
	}
	return "all checks pass"
}

func checkName(c facts.Check) string {
	name := c.Name
	if name == "" {
		name = c.CheckID
	}
	if c.Notes != "" {
		name += " (" + c.Notes + ")"
	}
	return name
}

// named reports whether a text names the target: its ID or the beginning of that, up to a dot.
func (t *Target) named(text string) bool {
	id, text := strings.ToLower(t.ID), strings.ToLower(text)
	return id == text || strings.EqualFold(t.Cluster, text) || strings.HasPrefix(id, text+".")
}
