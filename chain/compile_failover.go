package chain

import "fmt"

// failover makes the list of targets to try when t has no healthy instance. The failover of those
// targets is not followed: only their redirects and default subsets are.
func (c *compiler) failover(t *Target, r *ServiceResolver) (*ResolverFailover, *Problem) {
	f, ok := r.Failover[t.ServiceSubset]
	if !ok || t.ServiceSubset == "" {
		if f, ok = r.Failover["*"]; !ok {
			return nil, nil
		}
	}
	places, problem := c.failoverPlaces(t, r, &f)
	if problem != nil {
		return nil, problem
	}
	out := &ResolverFailover{Policy: f.Policy}
	for _, p := range places {
		if p.id() == t.ID {
			continue
		}
		target, _, problem := c.resolve(c.target(p))
		if problem != nil {
			return nil, problem
		}
		out.Targets = append(out.Targets, target.ID)
	}
	if len(out.Targets) == 0 {
		return nil, nil
	}
	if out.Policy == nil && c.proxy != nil {
		out.Policy = c.proxy.FailoverPolicy
	}
	return out, nil
}

// failoverPlaces lists where a failover leads. Of its forms exactly one counts.
func (c *compiler) failoverPlaces(t *Target, r *ServiceResolver, f *Failover) ([]place, *Problem) {
	var places []place
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
		return nil, c.problem(CodeNoSamenessGroup, r, "Failover", fmt.Sprintf(
			"sameness group missing for service %q", t.Service))
	default:
		places = append(places, c.rewritten(t, place{
			service: f.Service, subset: f.ServiceSubset, namespace: f.Namespace,
		}))
	}
	return places, nil
}
