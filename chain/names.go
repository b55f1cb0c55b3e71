package chain

// Namespaces and partitions are Enterprise: the Community Edition knows one of each.
const (
	defaultNamespace = "default"
	defaultPartition = "default"
)

// place says where the instances of a target are.
type place struct {
	service, subset, namespace, partition, datacenter, peer string
}

// local is a service, or a subset of it, where the chain is compiled for.
func (c *compiler) local(service, subset string) place {
	return place{
		service: service, subset: subset,
		namespace: defaultNamespace, partition: defaultPartition, datacenter: c.req.Datacenter,
	}
}

// id is the target ID. That of a peer names neither subset nor datacenter: they are the peer's affair.
func (p place) id() string {
	if p.peer != "" {
		return p.service + "." + p.namespace + "." + p.partition + ".external." + p.peer
	}
	if p.subset != "" {
		return p.subset + "." + p.service + "." + p.namespace + "." + p.partition + "." + p.datacenter
	}
	return p.service + "." + p.namespace + "." + p.partition + "." + p.datacenter
}

// sni is the TLS server name of the target; one at a peer has none here, as only the peer knows it.
func (p place) sni(trustDomain string) string {
	if p.peer != "" {
		return ""
	}
	name := p.service
	if p.subset != "" {
		name = p.subset + "." + name
	}
	if p.partition == defaultPartition {
		return name + "." + p.namespace + "." + p.datacenter + ".internal." + trustDomain
	}
	return name + "." + p.namespace + "." + p.partition + "." + p.datacenter + ".internal-v1." + trustDomain
}

// rewritten is where a target lies once a redirect or a failover names other coordinates; empty ones
// keep what the target has, but for the peer.
func (c *compiler) rewritten(t *Target, to place) place {
	p := place{
		service: t.Service, subset: t.ServiceSubset,
		namespace: t.Namespace, partition: t.Partition, datacenter: t.Datacenter,
		peer: to.peer,
	}
	if to.service != "" && to.service != p.service {
		p.service, p.subset = to.service, ""
	}
	if to.subset != "" {
		p.subset = to.subset
	}
	if to.namespace != "" {
		p.namespace = to.namespace
	}
	if to.peer != "" {
		p.namespace, p.partition, p.datacenter = orDefault(to.namespace, defaultNamespace), defaultPartition, ""
		return p
	}
	if to.partition != "" {
		p.partition = to.partition
	}
	if to.datacenter != "" {
		p.datacenter = to.datacenter
	}
	// A target that comes back from a peer has no datacenter of its own.
	p.datacenter = orDefault(p.datacenter, c.req.Datacenter)
	return p
}

// target returns the target at a place, new or known. Two subsets at a peer are one target: the
// first one asked for.
func (c *compiler) target(p place) *Target {
	id := p.id()
	if t := c.targets[id]; t != nil {
		return t
	}
	sni := p.sni(c.req.TrustDomain)
	t := &Target{
		ID: id, Service: p.service, ServiceSubset: p.subset,
		Namespace: p.namespace, Partition: p.partition, Datacenter: p.datacenter, Peer: p.peer,
		SNI: sni, Name: sni,
	}
	c.targets[id] = t
	return t
}

// named is the name of a router or splitter node.
func named(service string) string {
	return service + "." + defaultNamespace + "." + defaultPartition
}

// nodeKey is the key of a node in a chain's Nodes.
func nodeKey(nodeType, name string) string { return nodeType + ":" + name }

func orDefault(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
