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

// appendID adds the target ID. That of a peer names neither subset nor datacenter: they are the peer's
// affair.
func (p *place) appendID(to []byte) []byte {
	if p.subset != "" && p.peer == "" {
		to = append(append(to, p.subset...), '.')
	}
	to = append(append(to, p.service...), '.')
	to = append(append(to, p.namespace...), '.')
	to = append(append(to, p.partition...), '.')
	if p.peer != "" {
		return append(append(to, "external."...), p.peer...)
	}
	return append(to, p.datacenter...)
}

// appendSNI adds the TLS server name of the target; one at a peer has none here, as only the peer knows
// it.
func (p *place) appendSNI(to []byte, trustDomain string) []byte {
	if p.peer != "" {
		return to
	}
	if p.subset != "" {
		to = append(append(to, p.subset...), '.')
	}
	to = append(append(to, p.service...), '.')
	to = append(append(to, p.namespace...), '.')
	version := ".internal."
	if p.partition != defaultPartition {
		to = append(append(to, p.partition...), '.')
		version = ".internal-v1."
	}
	to = append(append(to, p.datacenter...), version...)
	return append(to, trustDomain...)
}

// rewritten is where a target lies once a redirect or a failover names other coordinates; empty ones
// keep what the target has, but for the peer.
func (c *compiler) rewritten(t *target, to place) place {
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

func orDefault(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
