package chain

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const defaultConnectTimeout = 5 * time.Second

// resolverNode makes the node that a target ends in, after redirects and default subset.
func (c *compiler) resolverNode(t *Target) (string, *Problem) {
	if key := nodeKey(NodeResolver, t.ID); c.nodes[key] != nil {
		return key, nil
	}
	t, resolver, problem := c.resolve(t)
	if problem != nil {
		return "", problem
	}
	key := nodeKey(NodeResolver, t.ID)
	if c.nodes[key] != nil {
		return key, nil
	}
	node := &Node{
		Type: NodeResolver,
		Name: t.ID,
		Resolver: &Resolver{
			Default:        resolver.isDefault(),
			ConnectTimeout: t.ConnectTimeout,
			RequestTimeout: resolver.RequestTimeout,
			Target:         t.ID,
		},
		LoadBalancer: resolver.LoadBalancer,
	}
	if problem = c.add(key, node); problem != nil {
		return "", problem
	}
	node.Resolver.Failover, problem = c.failover(t, resolver)
	return key, problem
}

// resolve follows redirects and the default subset to the target whose instances are used, and
// completes that one. It returns the resolver that has the say there.
func (c *compiler) resolve(t *Target) (*Target, *ServiceResolver, *Problem) {
	var seen []string
	for {
		if problem := c.checkRedirect(seen, t); problem != nil {
			return nil, nil, problem
		}
		seen = append(seen, t.ID)
		s, problem := c.arrive(t)
		if problem != nil {
			return nil, nil, problem
		}
		if next := c.redirect(t, s.resolver); next != t {
			t = next
			continue
		}
		if t.ServiceSubset == "" && s.resolver.DefaultSubset != "" {
			t = c.target(c.rewritten(t, place{subset: s.resolver.DefaultSubset}))
			continue
		}
		return t, s.resolver, c.complete(t, s)
	}
}

// arrive looks up what counts for a target, and makes its protocol count unless a peer decides it.
func (c *compiler) arrive(t *Target) (*service, *Problem) {
	if t.Peer != "" {
		return c.atPeer(t.Service), nil
	}
	return c.service(t.Service), c.recordProtocol(t.Service)
}

// checkRedirect refuses to come to a target again, naming the way there.
func (c *compiler) checkRedirect(seen []string, t *Target) *Problem {
	if len(seen) > MaxRedirects {
		return c.tooLarge("redirects", MaxRedirects)
	}
	if !slices.Contains(seen, t.ID) {
		return nil
	}
	return c.problem(CodeCircularRedirect, c.service(t.Service).resolver, "Redirect", fmt.Sprintf(
		"detected circular resolver redirect: [%s]", strings.Join(append(seen, t.ID), " -> ")))
}

// redirect is where the resolver sends the target's traffic: to the target itself without a redirect.
func (c *compiler) redirect(t *Target, r *ServiceResolver) *Target {
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
func (c *compiler) complete(t *Target, s *service) *Problem {
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
func (c *compiler) checkExternal(t *Target, r *ServiceResolver) *Problem {
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
