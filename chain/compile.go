package chain

import (
	"slices"
	"strings"
)

// What a [Request] means by an empty field.
const (
	DefaultDatacenter  = "dc1"
	DefaultTrustDomain = "catenary.local"
)

// The sizes above which [Compile] refuses a chain. Nested splitters multiply their legs, so a few
// small entries could otherwise fill the memory.
const (
	// MaxNodes bounds the nodes of a chain, nested splitters included.
	MaxNodes = 10_000
	// MaxSplits bounds the legs of all splitters of a chain together, where a nested splitter counts
	// each time it is merged into another.
	MaxSplits = 100_000
	// MaxRedirects bounds the redirects from one service to the one that is used in the end.
	MaxRedirects = 1_000
)

// Compile makes the discovery chain of a service out of config entries. It is deterministic, never
// panics and keeps nothing: the chain shares the entries' data, which must not change afterwards.
//
// The chain is nil exactly when one of the problems has the severity [SeverityError]; such a problem's
// message is in Consul's words. Entries should have passed [Normalize]; nil means no entries at all.
// Only entries that take part in the chain are looked up.
func Compile(req Request, e Entries) (*Chain, []Problem) {
	c := newCompiler(req, e)
	out, problem := c.compile()
	if problem != nil {
		return nil, []Problem{*problem}
	}
	return out, nil
}

// compiler is the state of one compilation.
type compiler struct {
	req     Request
	entries Entries

	services map[string]*service
	proxy    *ProxyDefaults
	// noResolver stands for the resolver of every service without one.
	noResolver ServiceResolver
	// reach is computed only for the rare chain that asks for it.
	reach reach

	// nodes are keyed by nodeKey, and nested splitters are still in them.
	nodes   map[string]*Node
	targets map[string]*Target

	// protocol is what all services recorded so far agree on.
	protocol   string
	customized customization
}

func newCompiler(req Request, e Entries) *compiler {
	if req.Datacenter == "" {
		req.Datacenter = DefaultDatacenter
	}
	if req.TrustDomain == "" {
		req.TrustDomain = DefaultTrustDomain
	}
	req.TrustDomain = strings.ToLower(req.TrustDomain)
	if e == nil {
		e = &EntrySet{}
	}
	return &compiler{
		req:      req,
		entries:  e,
		services: make(map[string]*service),
		proxy:    lookup[*ProxyDefaults](e, KindProxyDefaults, GlobalName),
		nodes:    make(map[string]*Node),
		targets:  make(map[string]*Target),
	}
}

func (c *compiler) compile() (*Chain, *Problem) {
	start, stripped, problem := c.start()
	if problem != nil {
		return nil, problem
	}
	if problem = c.checkCycles(start); problem != nil {
		return nil, problem
	}
	nodes, problem := c.flatten(start)
	if problem != nil {
		return nil, problem
	}
	if problem = c.checkProtocol(start); problem != nil {
		return nil, problem
	}
	c.overrideProtocol(stripped)
	defaults := c.service(c.req.Service).defaults
	out := &Chain{
		ServiceName:       c.req.Service,
		Namespace:         defaultNamespace,
		Partition:         defaultPartition,
		Datacenter:        c.req.Datacenter,
		CustomizationHash: c.customized.hash(),
		Default:           c.isDefault(nodes[start]),
		Protocol:          c.protocol,
		EnvoyExtensions:   c.extensions(defaults),
		StartNode:         start,
		Nodes:             nodes,
		Targets:           c.retainedTargets(nodes),
		AutoVirtualIPs:    c.req.AutoVirtualIPs,
		ManualVirtualIPs:  c.req.ManualVirtualIPs,
	}
	if defaults != nil {
		out.ServiceMeta = defaults.Meta
	}
	return out, nil
}

// start makes the chain's first node and all that follow it. It reports whether overrides kept the
// service's router or splitter out.
func (c *compiler) start() (key string, stripped bool, problem *Problem) {
	name := c.req.Service
	router := lookup[*ServiceRouter](c.entries, KindServiceRouter, name)
	if c.stripsLayer7() {
		splitter := lookup[*ServiceSplitter](c.entries, KindServiceSplitter, name)
		key, problem = c.resolverNode(c.target(c.local(name, "")))
		return key, router != nil || splitter != nil, problem
	}
	if router != nil {
		key, problem = c.routerNode(router)
		return key, false, problem
	}
	key, problem = c.splitterOrResolver(c.local(name, ""))
	return key, false, problem
}

// splitterOrResolver makes the node of a service: its splitter if it has one and no subset is chosen.
func (c *compiler) splitterOrResolver(p place) (string, *Problem) {
	if p.subset == "" {
		if key, problem := c.splitterNode(p.service); key != "" || problem != nil {
			return key, problem
		}
	}
	return c.resolverNode(c.target(p))
}

// add records a node under its key.
func (c *compiler) add(key string, n *Node) *Problem {
	if len(c.nodes) >= MaxNodes {
		return c.tooLarge("nodes", MaxNodes)
	}
	c.nodes[key] = n
	return nil
}

func (c *compiler) isDefault(start *Node) bool {
	if start.Type != NodeResolver || !start.Resolver.Default {
		return false
	}
	t := c.targets[start.Resolver.Target]
	return t.Service == c.req.Service && t.Namespace == defaultNamespace && t.Partition == defaultPartition
}

// extensions are those of all proxies, then those of the chain's own service.
func (c *compiler) extensions(own *ServiceDefaults) []EnvoyExtension {
	switch {
	case c.proxy == nil && own == nil:
		return nil
	case c.proxy == nil:
		return own.EnvoyExtensions
	case own == nil || len(own.EnvoyExtensions) == 0:
		return c.proxy.EnvoyExtensions
	}
	return slices.Concat(c.proxy.EnvoyExtensions, own.EnvoyExtensions)
}

// retainedTargets are the targets that a resolver among the nodes refers to.
func (c *compiler) retainedTargets(nodes map[string]*Node) map[string]*Target {
	kept := make(map[string]*Target, len(nodes))
	for _, n := range nodes {
		if n.Resolver == nil {
			continue
		}
		kept[n.Resolver.Target] = c.targets[n.Resolver.Target]
		if n.Resolver.Failover == nil {
			continue
		}
		for _, id := range n.Resolver.Failover.Targets {
			kept[id] = c.targets[id]
		}
	}
	return kept
}
