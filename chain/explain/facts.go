package explain

import (
	"cmp"
	"strings"

	"github.com/catenary-mesh/catenary/chain"
)

const (
	fromDefault  = "default"
	fromOverride = "override"
)

// service is what the entries say of a service; nil where they say nothing.
type service struct {
	defaults *chain.ServiceDefaults
	resolver *chain.ServiceResolver
}

func (w *walker) service(name string) service {
	return service{
		defaults: lookup[*chain.ServiceDefaults](w.entries, chain.KindServiceDefaults, name),
		resolver: lookup[*chain.ServiceResolver](w.entries, chain.KindServiceResolver, name),
	}
}

func lookup[E interface {
	comparable
	chain.Entry
}](from chain.Entries, kind chain.Kind, name string) E {
	e, _ := from.Entry(kind, name).(E)
	return e
}

// source names an entry and where it was read. Of an entry that is not there it is empty.
func source[E interface {
	comparable
	chain.Entry
}](e E) string {
	var none E
	if e == none {
		return ""
	}
	name := string(e.Kind()) + "/" + e.Head().Name
	if at := e.Head().Origin; at != "" {
		name += " (" + at + ")"
	}
	return name
}

// targetFacts says what holds for the instances of a target. The node is nil for one that is only
// failed over to.
func (w *walker) targetFacts(t *chain.Target, node *chain.Node) []Fact {
	s := w.service(t.Service)
	list := []Fact{}
	if t.Peer != "" {
		list = append(list, Fact{What: "at the peer " + t.Peer})
	} else {
		list = append(list, Fact{What: "protocol " + w.protocolOf(s), From: w.protocolFrom(s)})
	}
	list = append(list, subsetFacts(t)...)
	list = append(list, Fact{What: "connect timeout " + t.ConnectTimeout.String(), From: w.timeoutFrom(t, s)})
	if node != nil && node.Resolver.RequestTimeout != 0 {
		list = append(list, Fact{What: "request timeout " + node.Resolver.RequestTimeout.String()})
	}
	if node != nil && node.LoadBalancer != nil {
		list = append(list, Fact{What: "load balancer " + cmp.Or(node.LoadBalancer.Policy, "of Envoy's choice")})
	}
	if t.External {
		list = append(list, Fact{What: "external, SNI " + t.SNI, From: source(s.defaults)})
	}
	if mode := t.MeshGateway.Mode; mode != chain.MeshGatewayDefault {
		list = append(list, Fact{What: "mesh gateway " + string(mode), From: w.gatewayFrom(mode, s)})
	}
	if t.TransparentProxy.DialedDirectly {
		from := source(w.proxy)
		if d := s.defaults; d != nil && d.TransparentProxy != nil && d.TransparentProxy.DialedDirectly {
			from = source(d)
		}
		list = append(list, Fact{What: "may be dialed directly", From: from})
	}
	return list
}

func subsetFacts(t *chain.Target) []Fact {
	if t.ServiceSubset == "" {
		return nil
	}
	list := []Fact{{What: "subset " + t.ServiceSubset + ": all instances"}}
	if t.Subset.Filter != "" {
		list[0].What = "subset " + t.ServiceSubset + ": " + t.Subset.Filter
	}
	if t.Subset.OnlyPassing {
		list = append(list, Fact{What: "only passing instances"})
	}
	return list
}

// protocolOf is the protocol of a service. All that take part in a chain have the same, so that an
// override can only relabel it.
func (w *walker) protocolOf(s service) string {
	if s.defaults != nil {
		return cmp.Or(strings.ToLower(s.defaults.Protocol), "tcp")
	}
	if w.proxy == nil {
		return "tcp"
	}
	if w.req.Overrides.Protocol == "" {
		return w.chain.Protocol
	}
	text, _ := w.proxy.Config["protocol"].(string)
	return cmp.Or(strings.ToLower(text), "tcp")
}

// protocolFrom is what decided the protocol of a service. Defaults without a protocol hide that of
// all proxies.
func (w *walker) protocolFrom(s service) string {
	switch {
	case s.defaults != nil && s.defaults.Protocol == "":
		return source(s.defaults) + ", which names none"
	case s.defaults != nil:
		return source(s.defaults)
	case w.proxy != nil && w.proxy.Config["protocol"] != nil:
		return source(w.proxy)
	}
	return fromDefault
}

func (w *walker) timeoutFrom(t *chain.Target, s service) string {
	switch {
	case s.resolver != nil && s.resolver.ConnectTimeout == t.ConnectTimeout:
		return source(s.resolver)
	case t.ConnectTimeout == w.req.Overrides.ConnectTimeout:
		return fromOverride
	}
	return fromDefault
}

func (w *walker) gatewayFrom(mode chain.MeshGatewayMode, s service) string {
	own := chain.MeshGatewayDefault
	if s.defaults != nil {
		own = s.defaults.MeshGateway.Mode
	}
	switch {
	case own == mode:
		return source(s.defaults)
	case own == chain.MeshGatewayDefault && w.proxy != nil && w.proxy.MeshGateway.Mode == mode:
		return source(w.proxy)
	}
	return fromOverride
}

// policyFact says how failover targets are ordered, which in the Community Edition changes nothing.
func (w *walker) policyFact(p *chain.FailoverPolicy) Fact {
	fact := Fact{What: "failover policy " + cmp.Or(p.Mode, "without a mode")}
	if w.proxy != nil && p == w.proxy.FailoverPolicy {
		fact.From = source(w.proxy)
	}
	if len(p.Regions) > 0 {
		fact.What += ", regions " + strings.Join(p.Regions, ", ")
	}
	return fact
}
