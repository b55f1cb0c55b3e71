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
	// MaxHeaders bounds the header modifiers of all legs that are merged into others.
	MaxHeaders = 1_000_000
	// MaxRedirects bounds the redirects from one service to the one that is used in the end.
	MaxRedirects = 1_000
	// MaxTargets bounds the targets of a chain, where one counts each time that a route, a leg, a
	// redirect or a failover leads to it.
	MaxTargets = 50_000
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
	if c.respelled {
		c = newCompiler(req, Loaded(req.Service, c.entries))
		out, problem = c.compile()
	}
	if problem != nil {
		return nil, []Problem{*problem}
	}
	return out, nil
}

// compiler is the state of one compilation. Its output is made at the end, from the targets and from the
// forks that lead to them: so nothing is made that the chain does not hold, and in the right size.
type compiler struct {
	req     Request
	entries Entries

	proxy    *ProxyDefaults
	services services
	// noResolver stands for the resolver of every service without one.
	noResolver ServiceResolver
	// reach is computed only for the rare chain that asks for it.
	reach reach
	// respelled holds when an entry was found by a name in other letters than its own.
	respelled bool

	targets targets
	// splitters are those of each service asked for, by the name as it was spelled; nil for none.
	splitters map[string]*fork
	// nodes counts those made so far, nested splitters included.
	nodes int
	// places and failovers are room for those of one failover.
	places    []place
	failovers []*target

	resolverNodes slab[resolverNode]
	forks         slab[fork]

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
		proxy:    lookup[*ProxyDefaults](e, KindProxyDefaults, GlobalName),
		services: services{ownName: req.Service},
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
	splitters := start.splitters()
	if problem = c.checkSize(splitters); problem != nil {
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
		Default:           c.isDefault(start),
		Protocol:          c.protocol,
		EnvoyExtensions:   c.extensions(defaults),
		StartNode:         start.key(),
		Nodes:             c.allNodes(start, splitters),
		Targets:           c.targets.used(),
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
func (c *compiler) start() (first step, stripped bool, problem *Problem) {
	name := c.req.Service
	router := find[*ServiceRouter](c, KindServiceRouter, name)
	if c.stripsLayer7() {
		splitter := find[*ServiceSplitter](c, KindServiceSplitter, name)
		first, problem = c.resolver(c.target(c.local(name, "")))
		return first, router != nil || splitter != nil, problem
	}
	if router != nil {
		first, problem = c.router(router)
		return first, false, problem
	}
	first, problem = c.splitterOrResolver(c.local(name, ""))
	return first, false, problem
}

// splitterOrResolver makes the node of a service: its splitter if it has one and no subset is chosen.
func (c *compiler) splitterOrResolver(p place) (step, *Problem) {
	if p.subset == "" {
		if f, problem := c.splitter(p.service); f != nil || problem != nil {
			return step{fork: f}, problem
		}
	}
	return c.resolver(c.target(p))
}

// count makes room for one more node.
func (c *compiler) count() *Problem {
	if c.nodes >= MaxNodes {
		return c.tooLarge("nodes", MaxNodes)
	}
	c.nodes++
	return nil
}

// allNodes are the chain's nodes: the start, the splitters that are not below another one, and the
// resolvers. All of the resolvers are in use, since flattening drops no leg.
func (c *compiler) allNodes(start step, splitters []*fork) map[string]*Node {
	nodes := make(map[string]*Node, c.nodes)
	if start.fork != nil && start.fork.isRouter() {
		nodes[start.fork.key] = start.fork.routerNode()
	}
	for _, f := range splitters {
		nodes[f.key] = f.splitterNode()
	}
	for _, t := range c.targets.all {
		if t.node != nil {
			nodes[t.key] = t.node
		}
	}
	return nodes
}

func (c *compiler) isDefault(start step) bool {
	t := start.target
	return t != nil && t.node.Resolver.Default &&
		t.Service == c.req.Service && t.Namespace == defaultNamespace && t.Partition == defaultPartition
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
