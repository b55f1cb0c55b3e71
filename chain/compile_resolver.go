package chain

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const defaultConnectTimeout = 5 * time.Second

// resolverNode is a resolver node with what it points to.
type resolverNode struct {
	node     Node
	body     Resolver
	failover ResolverFailover
}

// resolver makes the resolver node that a target ends in, after redirects and default subset.
func (c *compiler) resolver(t *target) (step, *Problem) {
	t, problem := c.resolve(t)
	if problem != nil {
		return step{}, problem
	}
	if t.node != nil {
		return step{target: t}, nil
	}
	if problem = c.count(); problem != nil {
		return step{}, problem
	}
	n := c.resolverNodes.next()
	n.node = Node{Type: NodeResolver, Name: t.ID, Resolver: &n.body, LoadBalancer: t.resolver.LoadBalancer}
	n.body = Resolver{
		Default:        t.resolver.isDefault(),
		ConnectTimeout: t.ConnectTimeout,
		RequestTimeout: t.resolver.RequestTimeout,
		Target:         t.ID,
	}
	t.node = &n.node
	if problem = c.failover(t, &n.failover); len(n.failover.Targets) > 0 {
		n.body.Failover = &n.failover
	}
	return step{target: t}, problem
}

// resolve follows redirects and the default subset to the target whose instances are used, and
// completes that one.
func (c *compiler) resolve(t *target) (*target, *Problem) {
	var few [4]*target
	way := few[:0]
	for t.end == nil {
		if problem := c.checkRedirect(way, t); problem != nil {
			return nil, problem
		}
		way = append(way, t)
		s, problem := c.arrive(t)
		if problem != nil {
			return nil, problem
		}
		if next := c.redirect(t, s.resolver); next != t {
			t = next
			continue
		}
		if t.ServiceSubset == "" && s.resolver.DefaultSubset != "" {
			t = c.target(c.rewritten(t, place{subset: s.resolver.DefaultSubset}))
			continue
		}
		if problem := c.complete(t, s); problem != nil {
			return nil, problem
		}
		t.end = t
		way = way[:len(way)-1]
	}
	hops := t.hops + len(way)
	if hops > MaxRedirects {
		return nil, c.tooLarge("redirects", MaxRedirects)
	}
	for i, from := range way {
		from.end, from.hops = t.end, hops-i
	}
	return t.end, nil
}

// arrive looks up what counts for a target, and makes its protocol count unless a peer decides it.
func (c *compiler) arrive(t *target) (*service, *Problem) {
	if t.Peer != "" {
		return c.atPeer(t.Service), nil
	}
	s := c.service(t.Service)
	return s, c.recordProtocol(s, t.Service)
}

// checkRedirect refuses to come to a target again, naming the way there, and to go on forever.
func (c *compiler) checkRedirect(way []*target, t *target) *Problem {
	switch {
	case len(way) > MaxRedirects:
		return c.tooLarge("redirects", MaxRedirects)
	case c.targets.asked > MaxTargets:
		return c.tooLarge("targets", MaxTargets)
	case !slices.Contains(way, t):
		return nil
	}
	var ids strings.Builder
	for _, passed := range way {
		ids.WriteString(passed.ID + " -> ")
	}
	return c.problem(CodeCircularRedirect, c.service(t.Service).resolver, "Redirect", fmt.Sprintf(
		"detected circular resolver redirect: [%s%s]", ids.String(), t.ID))
}

// redirect is where the resolver sends the target's traffic: to the target itself without a redirect.
func (c *compiler) redirect(t *target, r *ServiceResolver) *target {
	to := r.Redirect
	if to == nil {
		return t
	}
	return c.target(c.rewritten(t, place{
		service: to.Service, subset: to.ServiceSubset,
		namespace: to.Namespace, partition: to.Partition, datacenter: to.Datacenter, peer: to.Peer,
	}))
}

// complete fills in what the entries say of a target that is used.
func (c *compiler) complete(t *target, s *service) *Problem {
	t.resolver = s.resolver
	subset, known := s.resolver.Subsets[t.ServiceSubset]
	if t.ServiceSubset != "" && !known {
		return c.problem(CodeNoSuchSubset, s.resolver, "Subsets", fmt.Sprintf(
			"service %q does not have a subset named %q", t.Service, t.ServiceSubset))
	}
	if t.ServiceSubset != "" {
		t.Subset = subset
	}
	t.ConnectTimeout = c.connectTimeout(s.resolver)
	if t.Peer == "" && t.Partition == defaultPartition {
		t.PrioritizeByLocality = s.resolver.PrioritizeByLocality
		if t.PrioritizeByLocality == nil && c.proxy != nil {
			t.PrioritizeByLocality = c.proxy.PrioritizeByLocality
		}
	}
	if s.defaults != nil && s.defaults.ExternalSNI != "" {
		t.External, t.SNI = true, s.defaults.ExternalSNI
		return c.checkExternal(t, s.resolver)
	}
	t.MeshGateway.Mode = c.meshGateway(s.defaults)
	t.TransparentProxy.DialedDirectly = dialedDirectly(s.defaults) || (c.proxy != nil && c.proxy.TransparentProxy != nil && c.proxy.TransparentProxy.DialedDirectly)
	return nil
}

// checkExternal refuses what needs instances in the mesh.
func (c *compiler) checkExternal(t *target, r *ServiceResolver) *Problem {
	field, what := "", ""
	switch {
	case r.Redirect != nil:
		field, what = "Redirect", "redirects"
	case len(r.Subsets) > 0:
		field, what = "Subsets", "subsets"
	case len(r.Failover) > 0:
		field, what = "Failover", "failover"
	default:
		return nil
	}
	return c.problem(CodeExternal, r, field, fmt.Sprintf(
		"service %q has an external SNI set; cannot define %s for external services", t.Service, what))
}

func (c *compiler) connectTimeout(r *ServiceResolver) time.Duration {
	timeout := r.ConnectTimeout
	if timeout < 1 {
		timeout = defaultConnectTimeout
	}
	if want := c.req.Overrides.ConnectTimeout; want > 0 && want != timeout {
		c.customized.connectTimeout = want
		return want
	}
	return timeout
}

// meshGateway is the first mode that is set: the override's, the service's, that of all proxies.
func (c *compiler) meshGateway(defaults *ServiceDefaults) MeshGatewayMode {
	mode := MeshGatewayDefault
	if c.proxy != nil {
		mode = c.proxy.MeshGateway.Mode
	}
	if defaults != nil && defaults.MeshGateway.Mode != MeshGatewayDefault {
		mode = defaults.MeshGateway.Mode
	}
	if want := c.req.Overrides.MeshGateway; want != MeshGatewayDefault && want != mode {
		c.customized.meshGateway = want
		return want
	}
	return mode
}

func dialedDirectly(d *ServiceDefaults) bool {
	return d != nil && d.TransparentProxy != nil && d.TransparentProxy.DialedDirectly
}

// isDefault reports whether the resolver changes nothing. An empty but present LoadBalancer or
// PrioritizeByLocality counts as a change, as it does for Consul.
func (r *ServiceResolver) isDefault() bool {
	return r.DefaultSubset == "" && len(r.Subsets) == 0 && r.Redirect == nil && len(r.Failover) == 0 &&
		r.ConnectTimeout == 0 && r.RequestTimeout == 0 &&
		r.LoadBalancer == nil && r.PrioritizeByLocality == nil
}
