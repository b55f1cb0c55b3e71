package snapshot

import (
	"fmt"
	"maps"
	"slices"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// ClusterName is the name of the cluster of a chain's target: the target's name, prefixed when the
// downstream's overrides made the chain differ from that of others.
func ClusterName(c *chain.Chain, t *chain.Target) string {
	if c.CustomizationHash != "" {
		return c.CustomizationHash + "~" + t.Name
	}
	return t.Name
}

// targets plans the clusters and endpoint sets of one chain.
type targets struct {
	*planner
	upstream UpstreamKey
	key      ChainKey
	out      *Part
	tls      TLSParameters // of mutual TLS
	barred   bool          // the client must not read a target, or that is not known
}

// plan adds what a chain needs. Nothing is served of a chain with a target that the client must not read.
// All that is not known is needed at once: one after the other would take a round to the source for each.
func (t *targets) plan(c *chain.Chain) {
	for _, id := range slices.Sorted(maps.Keys(c.Targets)) {
		t.barred = !t.mayRead(t.upstream.Reader, c.Targets[id].Service, t.out) || t.barred
	}
	if t.barred {
		if len(t.out.Missing) > 0 {
			t.out.Pending = "" // it must not, whatever else is not known
		}
		return
	}
	for _, name := range slices.Sorted(maps.Keys(c.Nodes)) {
		if node := c.Nodes[name]; node.Resolver != nil {
			t.resolver(c, node)
		}
	}
}

func (t *targets) resolver(c *chain.Chain, node *chain.Node) {
	target := c.Targets[node.Resolver.Target]
	failover := node.Resolver.Failover
	if failover == nil || len(failover.Targets) == 0 {
		t.await(t.unknown(target))
		t.cluster(c, node, target, ClusterName(c, target))
		return
	}
	var children []string
	for i, id := range append([]string{target.ID}, failover.Targets...) {
		member := c.Targets[id]
		if reason := t.unknown(member); i == 0 {
			t.await(reason)
		} else if reason != "" {
			t.out.Missing = append(t.out.Missing, "a failover target is left out: "+reason)
			continue
		}
		// Named after the target that fails over, as in Consul: two upstreams that fail over to one
		// target may treat it differently.
		child := FailoverName(i, ClusterName(c, target))
		children = append(children, child)
		t.cluster(c, node, member, child)
	}
	name := ClusterName(c, target)
	if t.upstream.Asked != "" {
		t.add(name, t.grpcAggregate(name, node, children))
		return
	}
	t.add(name, NewAggregateKey(name, node.Resolver.ConnectTimeout, children))
}

// await has the upstream wait for a reason, if there is one. What is planned of it then is not served.
func (t *targets) await(reason string) {
	if t.out.Pending == "" {
		t.out.Pending = reason
	}
}

// cluster adds a cluster of one target and its endpoint set.
func (t *targets) cluster(c *chain.Chain, node *chain.Node, target *chain.Target, name string) {
	t.add(name, t.clusterKey(c, node, target, name))
	gateways := t.gateways(target)
	t.add(name, EndpointSetKey{
		Topic:       t.topic(target),
		Filter:      target.Subset.Filter,
		OnlyPassing: target.Subset.OnlyPassing,
		WAN:         target.Datacenter != t.cfg.Datacenter && gateways.Datacenter != t.cfg.Datacenter,
		Gateways:    gateways,
	})
}

func (t *targets) clusterKey(c *chain.Chain, node *chain.Node, target *chain.Target, name string) Key {
	if t.upstream.Asked != "" {
		return t.grpcCluster(node, target, name)
	}
	return ClusterKey{
		Name: name, ConnectTimeout: node.Resolver.ConnectTimeout, FetchTimeout: t.upstream.Settings.FetchTimeout, Protocol: c.Protocol,
		LoadBalancer: loadBalancer(node),
		Limits:       t.upstream.Upstream.Config.Limits, Outlier: t.upstream.Upstream.Config.Outlier,
		Transport: t.transport(target),
		Child:     name != ClusterName(c, target),
	}
}

// gateways are the mesh gateways through which a mesh client reaches a target, if it does: those of the
// target's datacenter, or the ones at home, which know the others.
func (t *targets) gateways(target *chain.Target) facts.Topic {
	if t.upstream.Kind != Mesh || target.Datacenter == t.cfg.Datacenter {
		return facts.Topic{}
	}
	switch target.MeshGateway.Mode {
	case chain.MeshGatewayLocal:
		return facts.Gateways(t.cfg.Datacenter)
	case chain.MeshGatewayRemote:
		return facts.Gateways(target.Datacenter)
	case chain.MeshGatewayDefault, chain.MeshGatewayNone:
	}
	return facts.Topic{}
}

// transport is how a target is dialled: by a mesh client with its identity, and never in plaintext.
func (t *targets) transport(target *chain.Target) Transport {
	if t.upstream.Kind != Mesh {
		return Plaintext{}
	}
	return MutualTLS{SNI: target.SNI, Peer: SpiffeID(t.cfg.TrustDomain, target), Parameters: t.tls}
}

func (t *targets) note(text string) {
	if !slices.Contains(t.out.Notes, text) {
		t.out.Notes = append(t.out.Notes, text)
	}
}

func (t *targets) add(name string, key Key) {
	t.out.Resources = append(t.out.Resources, Ref{Name: name, Key: key})
}

func (t *targets) topic(target *chain.Target) facts.Topic {
	if t.upstream.Kind == Mesh {
		return facts.Connect(target.Datacenter, target.Service)
	}
	return facts.Health(target.Datacenter, target.Service)
}

// unknown says why a target's instances are not known well enough to serve; empty when they are. It
// needs what it finds unknown, and the services of the target's datacenter.
func (t *targets) unknown(target *chain.Target) string {
	if target.Peer != "" {
		return fmt.Sprintf("target %s: cluster peering is not supported", target.ID)
	}
	topic := t.topic(target)
	services := facts.Services(target.Datacenter)
	t.out.needs = append(t.out.needs, services)
	known := t.r.Known(topic)
	if t.r.Service(target.Datacenter, target.Service) != facts.Absent {
		t.out.needs = append(t.out.needs, topic)
	} else {
		t.note(fmt.Sprintf("no instance of the service %q is registered in %s: is its name right?",
			target.Service, target.Datacenter))
	}
	if gateways := t.gateways(target); gateways != (facts.Topic{}) {
		t.out.needs = append(t.out.needs, gateways)
		if !t.r.Known(gateways) {
			return t.r.Why(facts.ID{Topic: gateways})
		}
	}
	if known {
		return ""
	}
	id := facts.ID{Topic: topic}
	if status := t.r.Topic(services); status.Failure != "" && !t.r.Topic(topic).Read {
		id = facts.ID{Topic: services}
	}
	return t.r.Why(id)
}

func loadBalancer(node *chain.Node) LoadBalancer {
	lb := node.LoadBalancer
	if lb == nil {
		return LoadBalancer{}
	}
	k := LoadBalancer{Policy: lb.Policy}
	if lb.RingHashConfig != nil {
		k.MinRing, k.MaxRing = lb.RingHashConfig.MinimumRingSize, lb.RingHashConfig.MaximumRingSize
	}
	if lb.LeastRequestConfig != nil {
		k.LeastRequestsChoices = lb.LeastRequestConfig.ChoiceCount
	}
	return k
}
