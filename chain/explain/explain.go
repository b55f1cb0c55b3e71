// Package explain says how a discovery chain came about: which entry made each step of it, the
// redirects that the chain itself no longer shows, and which defaults applied.
//
// A chain and the entries it was compiled from go in, a tree comes out. It is pure, as the compiler is,
// and trusts the compiler: what it shows of a step is what the chain holds, and the entries only say
// why.
package explain

import "github.com/catenary-mesh/catenary/chain"

// Explanation is a chain as people read it.
type Explanation struct {
	Service    string
	Datacenter string
	// Facts hold for the chain as a whole.
	Facts []Fact
	// Start is the first step.
	Start *Step
}

// Fact is one property, and what decided it.
type Fact struct {
	// What is a few words, such as "connect timeout 5s".
	What string
	// From is an entry, as in [Step], "default" or "override"; empty where the step's own entry decided.
	From string `json:",omitempty"`
}

// The kinds of a [Step].
const (
	KindRouter   = "router"
	KindSplitter = "splitter"
	// KindRedirect passes everything on: by a redirect, or to a default subset.
	KindRedirect = "redirect"
	// KindTarget is where the instances are: a resolver node of the chain.
	KindTarget = "target"
	// KindFailover is a target that is used when the one before has no healthy instance.
	KindFailover = "failover"
)

// Step is one stage on the way of a request.
type Step struct {
	Kind string
	// Name is a service for routers and splitters, and a target ID for the others.
	Name string
	// Via is how a request comes here from the step before, such as "route 1: path prefix /v2" or "90 %".
	Via string `json:",omitempty"`
	// Share is the effective weight of a leg below a nested splitter, in percent of the outermost one.
	Share string `json:",omitempty"`
	// From is the entry that made the step, such as "service-router/web (shop.hcl:12)"; empty when none did.
	From string `json:",omitempty"`
	// Facts hold for this step.
	Facts []Fact `json:",omitempty"`
	// Again marks a step that is explained further up; what follows it is said there only.
	Again bool    `json:",omitempty"`
	Next  []*Step `json:",omitempty"`
}

// Explain says how a chain came about. The request and the entries must be those that the chain was
// compiled with; nothing is changed or kept.
func Explain(req chain.Request, c *chain.Chain, e chain.Entries) *Explanation {
	if e == nil {
		e = &chain.EntrySet{}
	}
	w := &walker{
		req: req, chain: c, entries: chain.Loaded(req.Service, e), seen: map[string]bool{},
		proxy: lookup[*chain.ProxyDefaults](e, chain.KindProxyDefaults, chain.GlobalName),
	}
	return &Explanation{
		Service: c.ServiceName, Datacenter: c.Datacenter,
		Facts: w.whole(),
		Start: w.arrive(c.StartNode, w.start()),
	}
}

// walker goes along a chain and its entries at the same time.
type walker struct {
	req     chain.Request
	chain   *chain.Chain
	entries chain.Entries
	proxy   *chain.ProxyDefaults
	seen    map[string]bool // steps that are explained
}

// whole says what holds for all of the chain.
func (w *walker) whole() []Fact {
	own := w.service(w.chain.ServiceName)
	protocol := Fact{What: "protocol " + w.chain.Protocol, From: w.protocolFrom(own)}
	if o := w.req.Overrides.Protocol; o != "" && o == w.chain.Protocol {
		protocol.From = fromOverride
	}
	list := []Fact{protocol}
	if w.chain.StartNode != "" && w.chain.Nodes[w.chain.StartNode].Type == chain.NodeResolver &&
		w.req.Overrides.Protocol != "" && !chain.IsLayer7(w.req.Overrides.Protocol) {
		if left := w.strippable(); left != "" {
			list = append(list, Fact{What: "without " + left, From: fromOverride})
		}
	}
	for i := range w.chain.EnvoyExtensions {
		list = append(list, Fact{What: "Envoy extension " + w.chain.EnvoyExtensions[i].Name})
	}
	if w.chain.CustomizationHash != "" {
		list = append(list, Fact{What: "customization hash " + w.chain.CustomizationHash, From: fromOverride})
	}
	return list
}

// strippable names the entry that a protocol below layer 7 leaves no room for.
func (w *walker) strippable() string {
	for _, kind := range []chain.Kind{chain.KindServiceRouter, chain.KindServiceSplitter} {
		if e := w.entries.Entry(kind, w.chain.ServiceName); e != nil {
			return source(e)
		}
	}
	return ""
}
