package chain

// target is a [Target] while its chain is made. The chain holds the Target alone: nothing in a chain may
// point to the compiler, and keep its entries from being freed.
type target struct {
	*Target
	// key is that of the resolver node that ends in the target, and node is that node, if there is one.
	key  string
	node *Node
	// end is the target whose instances are used for this one, hops redirects away; nil until known. A
	// target that is its own end is complete, and part of the chain.
	end  *target
	hops int
	// resolver has the say at a complete target.
	resolver *ServiceResolver
}

// targets holds those made so far. Few are found fastest by looking at each, without a map.
type targets struct {
	all  []*target
	few  [8]*target
	byID map[string]*target
	slab slab[target]
	out  slab[Target]
	// asked counts how often something led to a target.
	asked int
}

func (ts *targets) find(id []byte) *target {
	if ts.byID != nil {
		return ts.byID[string(id)]
	}
	for _, t := range ts.all {
		if t.ID == string(id) {
			return t
		}
	}
	return nil
}

func (ts *targets) add(v Target) *target {
	t := ts.slab.next()
	t.Target = ts.out.next()
	*t.Target = v
	if ts.all == nil {
		ts.all = ts.few[:0]
	}
	ts.all = append(ts.all, t)
	switch {
	case ts.byID != nil:
		ts.byID[t.ID] = t
	case len(ts.all) > len(ts.few):
		ts.byID = make(map[string]*target, 4*len(ts.few))
		for _, known := range ts.all {
			ts.byID[known.ID] = known
		}
	}
	return t
}

// used are the targets that a resolver refers to, which leaves out those that redirects went through.
func (ts *targets) used() map[string]*Target {
	out := make(map[string]*Target, len(ts.all))
	for _, t := range ts.all {
		if t.end == t {
			out[t.ID] = t.Target
		}
	}
	return out
}

// target returns the target at a place, new or known. Two subsets at a peer are one target: the
// first one asked for.
func (c *compiler) target(p place) *target {
	c.targets.asked++
	const prefix = NodeResolver + ":"
	var room [192]byte
	text := p.appendID(append(room[:0], prefix...))
	if t := c.targets.find(text[len(prefix):]); t != nil {
		return t
	}
	end := len(text)
	// One string holds all three names.
	names := string(p.appendSNI(text, c.req.TrustDomain))
	sni := names[end:]
	t := c.targets.add(Target{
		ID: names[len(prefix):end], Service: p.service, ServiceSubset: p.subset,
		Namespace: p.namespace, Partition: p.partition, Datacenter: p.datacenter, Peer: p.peer,
		SNI: sni, Name: sni,
	})
	t.key = names[:end]
	return t
}
