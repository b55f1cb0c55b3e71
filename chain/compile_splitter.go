package chain

import "strings"

// splitterNode makes the node of a service's splitter, or returns an empty key when it has none. Its
// legs may still lead to other splitters, and back to this one.
func (c *compiler) splitterNode(service string) (string, *Problem) {
	entry := lookup[*ServiceSplitter](c.entries, KindServiceSplitter, service)
	if entry == nil {
		return "", nil
	}
	node := &Node{Type: NodeSplitter, Name: named(service), Splits: make([]*Split, 0, len(entry.Splits))}
	key := nodeKey(node.Type, node.Name)
	if c.nodes[key] != nil {
		return key, nil
	}
	if problem := c.add(key, node); problem != nil {
		return "", problem
	}
	for i := range entry.Splits {
		leg := &entry.Splits[i]
		next, problem := c.leg(service, leg)
		if problem != nil {
			return "", problem
		}
		node.Splits = append(node.Splits, &Split{Definition: leg, Weight: leg.Weight, NextNode: next})
		if lb := c.nodes[next].LoadBalancer; node.LoadBalancer == nil && c.nodes[next].Type == NodeResolver && lb.hashes() {
			node.LoadBalancer = lb
		}
	}
	return key, nil
}

// leg makes the node a leg leads to. The leg to the splitter's own service is what keeps a splitter
// from splitting itself.
func (c *compiler) leg(splitter string, leg *ServiceSplit) (string, *Problem) {
	to := c.local(orDefault(leg.Service, splitter), leg.ServiceSubset)
	if strings.EqualFold(to.service, splitter) {
		return c.resolverNode(c.target(to))
	}
	return c.splitterOrResolver(to)
}

// hashes reports whether the policy picks the instance by a hash of the request.
func (lb *LoadBalancer) hashes() bool {
	return lb != nil && (lb.Policy == "ring_hash" || lb.Policy == "maglev")
}
