package chain

// routerNode makes the node of the chain's router. Routers of other services never take part.
func (c *compiler) routerNode(r *ServiceRouter) (string, *Problem) {
	if problem := c.recordProtocol(r.Name); problem != nil {
		return "", problem
	}
	node := &Node{Type: NodeRouter, Name: named(r.Name), Routes: make([]*Route, 0, len(r.Routes)+1)}
	key := nodeKey(node.Type, node.Name)
	if problem := c.add(key, node); problem != nil {
		return "", problem
	}
	for i := range r.Routes {
		next, problem := c.splitterOrResolver(c.destination(r.Routes[i].Destination))
		if problem != nil {
			return "", problem
		}
		node.Routes = append(node.Routes, &Route{Definition: &r.Routes[i], NextNode: next})
	}
	next, problem := c.splitterOrResolver(c.local(r.Name, ""))
	if problem != nil {
		return "", problem
	}
	node.Routes = append(node.Routes, &Route{Definition: catchAll(r.Name), NextNode: next})
	return key, nil
}

// destination is the place a route leads to.
func (c *compiler) destination(d *RouteDestination) place {
	if d == nil {
		return c.local(c.req.Service, "")
	}
	p := c.local(orDefault(d.Service, c.req.Service), d.ServiceSubset)
	p.namespace = orDefault(d.Namespace, p.namespace)
	p.partition = orDefault(d.Partition, p.partition)
	return p
}

// catchAll is the route that follows the user's own.
func catchAll(service string) *ServiceRoute {
	return &ServiceRoute{
		Match: &RouteMatch{HTTP: &HTTPMatch{PathPrefix: "/"}},
		Destination: &RouteDestination{
			Service: service, Namespace: defaultNamespace, Partition: defaultPartition,
		},
	}
}
