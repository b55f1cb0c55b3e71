package chain

// router makes the chain's router. Routers of other services never take part.
func (c *compiler) router(r *ServiceRouter) (step, *Problem) {
	if problem := c.recordProtocol(c.service(r.Name), r.Name); problem != nil {
		return step{}, problem
	}
	if problem := c.count(); problem != nil {
		return step{}, problem
	}
	f := c.newFork(NodeRouter, r.Name, len(r.Routes)+1)
	f.routes = r.Routes
	c.splitters = make(map[string]*fork)
	for i := range r.Routes {
		next, problem := c.splitterOrResolver(c.destination(r.Routes[i].Destination))
		if problem != nil {
			return step{}, problem
		}
		f.next = append(f.next, next)
	}
	next, problem := c.splitterOrResolver(c.local(r.Name, ""))
	f.next = append(f.next, next)
	return step{fork: f}, problem
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

// routerNode makes the node of a router.
func (f *fork) routerNode() *Node {
	routes := make([]Route, len(f.next))
	for i := range f.routes {
		routes[i] = Route{Definition: &f.routes[i], NextNode: f.next[i].key()}
	}
	last := len(f.routes)
	routes[last] = Route{Definition: catchAll(f.service), NextNode: f.next[last].key()}
	return &Node{Type: f.nodeType, Name: f.name(), Routes: pointers(routes)}
}

// catchAll is the route that follows the user's own.
func catchAll(service string) *ServiceRoute {
	r := new(struct {
		ServiceRoute
		match       RouteMatch
		http        HTTPMatch
		destination RouteDestination
	})
	r.http.PathPrefix = "/"
	r.destination = RouteDestination{Service: service, Namespace: defaultNamespace, Partition: defaultPartition}
	r.match.HTTP = &r.http
	r.Match, r.Destination = &r.match, &r.destination
	return &r.ServiceRoute
}
