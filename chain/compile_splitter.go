package chain

// splitter makes the splitter of a service, or returns nil when it has none.
func (c *compiler) splitter(service string) (*fork, *Problem) {
	if f, known := c.splitters[service]; known {
		return f, nil
	}
	entry := find[*ServiceSplitter](c, KindServiceSplitter, service)
	if entry == nil {
		// Without a router or a splitter nobody asks twice.
		if c.splitters != nil {
			c.splitters[service] = nil
		}
		return nil, nil
	}
	if problem := c.count(); problem != nil {
		return nil, problem
	}
	f := c.newFork(NodeSplitter, service, len(entry.Splits))
	f.legs = entry.Splits
	if c.splitters == nil {
		c.splitters = make(map[string]*fork)
	}
	c.splitters[service] = f
	for i := range entry.Splits {
		next, problem := c.leg(service, &entry.Splits[i])
		if problem != nil {
			return nil, problem
		}
		f.next = append(f.next, next)
		if t := next.target; f.loadBalancer == nil && t != nil && t.node.LoadBalancer.hashes() {
			f.loadBalancer = t.node.LoadBalancer
		}
	}
	return f, nil
}

// leg makes the node a leg leads to. The leg to the splitter's own service is what keeps a splitter
// from splitting itself.
func (c *compiler) leg(splitter string, leg *ServiceSplit) (step, *Problem) {
	to := c.local(orDefault(leg.Service, splitter), leg.ServiceSubset)
	if to.service == splitter {
		return c.resolver(c.target(to))
	}
	return c.splitterOrResolver(to)
}

// hashes reports whether the policy picks the instance by a hash of the request.
func (lb *LoadBalancer) hashes() bool {
	return lb != nil && (lb.Policy == "ring_hash" || lb.Policy == "maglev")
}
