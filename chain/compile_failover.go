package chain

import "fmt"

// failover fills in the list of targets to try when t has no healthy instance. The failover of those
// targets is not followed: only their redirects and default subsets are.
func (c *compiler) failover(t *target, out *ResolverFailover) *Problem {
	f, ok := t.resolver.Failover[t.ServiceSubset]
	if !ok || t.ServiceSubset == "" {
		if f, ok = t.resolver.Failover["*"]; !ok {
			return nil
		}
	}
	places, problem := c.failoverPlaces(t, &f)
	if problem != nil {
		return problem
	}
	// All are made before the redirect of any is followed: of two at one peer that differ by subset only,
	// the first that is made counts.
	targets := c.failovers[:0]
	for _, p := range places {
		if to := c.target(p); to != t {
			targets = append(targets, to)
		}
	}
	c.failovers = targets
	out.Targets = make([]string, 0, len(targets))
	for _, to := range targets {
		if to, problem = c.resolve(to); problem != nil {
			return problem
		}
		out.Targets = append(out.Targets, to.ID)
	}
	out.Policy = f.Policy
	if out.Policy == nil && c.proxy != nil {
		out.Policy = c.proxy.FailoverPolicy
	}
	return nil
}

// failoverPlaces lists where a failover leads, until it is called again. Of its forms exactly one counts.
func (c *compiler) failoverPlaces(t *target, f *Failover) ([]place, *Problem) {
	places := c.places[:0]
	switch {
	case len(f.Datacenters) > 0:
		for _, dc := range f.Datacenters {
			places = append(places, c.rewritten(t, place{
				service: f.Service, subset: f.ServiceSubset, namespace: f.Namespace, datacenter: dc,
			}))
		}
	case len(f.Targets) > 0:
		for i := range f.Targets {
			to := &f.Targets[i]
			places = append(places, c.rewritten(t, place{
				service: to.Service, subset: to.ServiceSubset,
				namespace: to.Namespace, partition: to.Partition, datacenter: to.Datacenter, peer: to.Peer,
			}))
		}
	case f.SamenessGroup != "":
		return nil, c.problem(CodeNoSamenessGroup, t.resolver, "Failover", fmt.Sprintf(
			"sameness group missing for service %q", t.Service))
	default:
		places = append(places, c.rewritten(t, place{
			service: f.Service, subset: f.ServiceSubset, namespace: f.Namespace,
		}))
	}
	c.places = places
	return places, nil
}
