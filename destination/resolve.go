package destination

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/snapshot"
)

// Place is what all names are resolved with.
type Place struct {
	// Datacenter is the control plane's own.
	Datacenter string
	// TrustDomain ends identities and names of servers.
	TrustDomain string
	// Plain has instances dialled at their own address also where they have a sidecar.
	Plain bool
}

// Resolution is what is known of a name, and what it was made of.
type Resolution struct {
	State State
	// Set is that of the state Some.
	Set *Set
	// Pending says why the state is Unknown.
	Pending string
	// Denied says which service the reader must not read; the state is then Unknown for ever.
	Denied string
	// Problems keep the entries about the name from compiling; what did compile last is in force.
	Problems []chain.Problem
	// Notes say what cannot be done.
	Notes []string
	// Chain is the last that compiled, Reads the facts it was made of, Needs what must be followed for it.
	Chain *chain.Chain
	Reads map[facts.ID]struct{}
	Needs []facts.Topic
}

// Resolve finds the endpoints of a name: those of what its resolver ends in, with failover. Splitters and routers
// are no affair of a name's endpoints: they are in its profile. last is the chain that compiled last, if one did.
func (p Place) Resolve(view facts.View, name Name, reader string, last *chain.Chain) Resolution {
	r := &resolver{Place: p, name: name, reader: reader, r: view.Read(), out: Resolution{Chain: last}}
	r.run()
	r.out.Reads = r.r.Reads()
	r.out.Needs = distinct(r.out.Needs)
	return r.out
}

func distinct(topics []facts.Topic) []facts.Topic {
	slices.SortFunc(topics, func(a, b facts.Topic) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(topics)
}

type resolver struct {
	Place
	name   Name
	reader string
	r      *facts.Reader
	out    Resolution
}

func (r *resolver) need(topics ...facts.Topic) { r.out.Needs = append(r.out.Needs, topics...) }

// wait notes why the state is not known, of several reasons the first.
func (r *resolver) wait(reason string) {
	r.out.State, r.out.Pending = Unknown, cmp.Or(r.out.Pending, reason)
}

func (r *resolver) run() {
	if !r.mayRead(r.name.Service) {
		return
	}
	switch r.exists() {
	case facts.Absent:
		r.out.State, r.out.Chain = NoService, nil
		return
	case facts.Unknown:
		r.wait(r.why())
		return
	case facts.Present, facts.Suspect:
	}
	c, problems := chain.Compile(chain.Request{
		Service: r.name.start(), Datacenter: r.name.Datacenter, TrustDomain: r.TrustDomain,
		Overrides: chain.Overrides{Protocol: "tcp"}, // leaves routers and splitters out
	}, subsetOf{r.r, r.name})
	if len(r.r.Unknown()) > 0 {
		r.wait(r.why())
		return
	}
	r.out.Problems = problems
	if c != nil {
		r.out.Chain = c
	}
	if r.out.Chain == nil {
		r.out.State = r.uncompiled()
		return
	}
	r.targets(r.out.Chain)
}

func (r *resolver) why() string {
	if unknown := r.r.Unknown(); len(unknown) > 0 {
		return r.r.Why(unknown[0])
	}
	return "not known yet"
}

// exists reports whether there is such a service: the catalog has it, or an entry names it.
func (r *resolver) exists() facts.State {
	services := facts.Services(r.name.Datacenter)
	r.need(services)
	worst := r.r.Service(r.name.Datacenter, r.name.Service)
	if worst == facts.Present || worst == facts.Suspect {
		return worst
	}
	for _, kind := range []chain.Kind{chain.KindServiceResolver, chain.KindServiceSplitter, chain.KindServiceRouter, chain.KindServiceDefaults} {
		r.r.Entry(kind, r.name.Service)
		switch _, state := r.r.View.Entry(kind, r.name.Service); state {
		case facts.Present, facts.Suspect:
			return facts.Present
		case facts.Unknown:
			worst = facts.Unknown
		case facts.Absent:
		}
	}
	return worst
}

// uncompiled is the state of a name whose chain never compiled. A subset that its resolver does not have is a
// name that does not exist; anything else exists and has nothing to offer.
func (r *resolver) uncompiled() State {
	if r.name.Subset == "" {
		return NoEndpoints
	}
	entry, _ := r.r.Entry(chain.KindServiceResolver, r.name.Service).(*chain.ServiceResolver)
	if entry == nil {
		return NoService
	}
	for subset := range entry.Subsets {
		if strings.EqualFold(subset, r.name.Subset) {
			return NoEndpoints
		}
	}
	return NoService
}

// subsetName stands for a subset as a service of its own; no service can have it.
const subsetName = "\x00subset"

// start is where the chain of the name begins.
func (n Name) start() string {
	if n.Subset == "" {
		return n.Service
	}
	return subsetName
}

// subsetOf has entries about a subset: it is what the chain of a service would end in that redirects there.
type subsetOf struct {
	chain.Entries
	name Name
}

// Entry implements [chain.Entries].
func (s subsetOf) Entry(kind chain.Kind, name string) chain.Entry {
	if name != subsetName {
		return s.Entries.Entry(kind, name)
	}
	if kind != chain.KindServiceResolver {
		return nil
	}
	return &chain.ServiceResolver{
		Header:   chain.Header{Name: subsetName},
		Redirect: &chain.Redirect{Service: s.name.Service, ServiceSubset: s.spelled()},
	}
}

// spelled is the subset as its resolver spells it: in names case does not count, in chains it does.
func (s subsetOf) spelled() string {
	entry, _ := s.Entries.Entry(chain.KindServiceResolver, s.name.Service).(*chain.ServiceResolver)
	if entry == nil {
		return s.name.Subset
	}
	found := s.name.Subset
	for subset := range entry.Subsets {
		if strings.EqualFold(subset, s.name.Subset) && (found == s.name.Subset || subset < found) {
			found = subset
		}
	}
	if _, exact := entry.Subsets[s.name.Subset]; exact {
		return s.name.Subset
	}
	return found
}

// targets takes the first target that has endpoints, and says that there are none only when that is known of all.
func (r *resolver) targets(c *chain.Chain) {
	node := c.Nodes[c.StartNode]
	if node == nil || node.Resolver == nil {
		r.out.State = NoEndpoints
		return
	}
	ids := []string{node.Resolver.Target}
	if f := node.Resolver.Failover; f != nil {
		ids = append(ids, f.Targets...)
	}
	denied := false
	for _, id := range ids {
		denied = !r.mayRead(c.Targets[id].Service) || denied
	}
	if denied {
		return
	}
	r.out.State = NoEndpoints
	decided := false
	for i, id := range ids {
		// All are looked at, so that those to fail over to are known when they are wanted.
		set, known := r.target(c.Targets[id])
		if decided {
			continue
		}
		if !known {
			decided = i == 0 // before the target itself is known none of the others is the right one
			continue
		}
		if len(set.Endpoints) > 0 {
			decided, r.out.State, r.out.Set, r.out.Pending = true, Some, set, ""
		}
	}
	if r.out.Set == nil && r.out.Pending != "" {
		r.out.State = Unknown
	}
}

// mayRead reports whether the reader may read a service. When not, what is known so far is all there is.
func (r *resolver) mayRead(service string) bool {
	if r.reader == "" {
		return true
	}
	r.need(facts.Rights(r.reader, service))
	switch r.r.Right(r.reader, service) {
	case facts.Present, facts.Suspect:
		return true
	case facts.Absent:
		r.out.Denied = service
		r.wait(fmt.Sprintf("the client has no service:read on %q", service))
	case facts.Unknown:
		r.wait(fmt.Sprintf("whether the client has service:read on %q is not known yet", service))
	}
	return false
}

// target returns the healthy endpoints of a target; known is false while the facts do not suffice.
func (r *resolver) target(t *chain.Target) (set *Set, known bool) {
	if t.Peer != "" {
		r.out.Notes = append(r.out.Notes, fmt.Sprintf("target %s: cluster peering is not supported", t.ID))
		return NewSet(Labels{}, nil), true
	}
	services := facts.Services(t.Datacenter)
	r.need(services)
	present := r.r.Service(t.Datacenter, t.Service) != facts.Absent
	known = true
	topics := []facts.Topic{facts.Health(t.Datacenter, t.Service)}
	if !r.Plain {
		topics = append(topics, facts.Connect(t.Datacenter, t.Service))
	}
	for _, topic := range topics {
		if present {
			r.need(topic)
		}
		known = r.known(topic) && known
	}
	gateways := r.gateways(t)
	if gateways != (facts.Topic{}) {
		r.need(gateways)
		known = r.known(gateways) && known
	}
	if !known {
		return nil, false
	}
	return NewSet(Labels{Service: t.Service, Subset: t.ServiceSubset, Datacenter: t.Datacenter}, r.endpoints(t, gateways)), true
}

func (r *resolver) known(topic facts.Topic) bool {
	if r.r.Known(topic) {
		return true
	}
	r.out.Pending = cmp.Or(r.out.Pending, r.r.Why(facts.ID{Topic: topic}))
	return false
}

// gateways are those through which mesh instances of another datacenter are reached, if they are.
func (r *resolver) gateways(t *chain.Target) facts.Topic {
	if r.Plain || t.Datacenter == r.Datacenter {
		return facts.Topic{}
	}
	switch t.MeshGateway.Mode {
	case chain.MeshGatewayLocal:
		return facts.Gateways(r.Datacenter)
	case chain.MeshGatewayRemote:
		return facts.Gateways(t.Datacenter)
	case chain.MeshGatewayDefault, chain.MeshGatewayNone:
	}
	return facts.Topic{}
}

// endpoints are the mesh instances of a target, with their identity, and the instances that have no sidecar.
func (r *resolver) endpoints(t *chain.Target, gateways facts.Topic) []Endpoint {
	opaque := !chain.IsLayer7(r.protocol(t))
	key := snapshot.EndpointSetKey{
		Filter: t.Subset.Filter, OnlyPassing: t.Subset.OnlyPassing, WAN: t.Datacenter != r.Datacenter,
	}
	var list []Endpoint
	var meshed []*facts.Instance
	if !r.Plain {
		key := key
		key.Topic, key.Gateways = facts.Connect(t.Datacenter, t.Service), gateways
		if gateways.Datacenter == r.Datacenter && gateways != (facts.Topic{}) {
			key.WAN = false
		}
		meshed, _ = r.r.Instances(key.Topic)
		if gateways != (facts.Topic{}) {
			r.r.Instances(gateways)
		}
		for _, e := range r.members(key) {
			e.Opaque, e.ServerName = opaque, t.SNI
			e.Identity = snapshot.SpiffeID(r.TrustDomain, identified(t, meshed))
			list = append(list, e)
		}
	}
	key.Topic = facts.Health(t.Datacenter, t.Service)
	r.r.Instances(key.Topic)
	sidecars := coveredBy(meshed)
	for _, e := range r.members(key) {
		if !sidecars.has(&e) {
			e.Opaque = opaque
			list = append(list, e)
		}
	}
	return list
}

// identified is the target with its service spelled as in certificates, where case counts.
func identified(t *chain.Target, meshed []*facts.Instance) *chain.Target {
	named := *t
	for _, in := range meshed {
		service := in.Service.Service
		if in.Service.Proxy != nil {
			service = in.Service.Proxy.DestinationServiceName
		}
		if strings.EqualFold(service, t.Service) {
			named.Service = service
			break
		}
	}
	return &named
}

// members are the healthy endpoints of a set.
func (r *resolver) members(key snapshot.EndpointSetKey) []Endpoint {
	members, _ := key.Members(r.r.View)
	list := make([]Endpoint, 0, len(members))
	for _, m := range members {
		if m.Left != "" || m.Endpoint.Health != snapshot.Healthy {
			continue
		}
		ip, err := netip.ParseAddr(m.Endpoint.Address)
		if err != nil {
			continue
		}
		list = append(list, Endpoint{
			Addr:   netip.AddrPortFrom(ip.Unmap(), uint16(m.Endpoint.Port)),
			Weight: m.Endpoint.Weight, Region: clean(m.Endpoint.Region), Zone: clean(m.Endpoint.Zone),
			Instance: clean(m.Instance.Service.ID), Node: clean(m.Instance.Node.Node),
		})
	}
	return list
}

// place is where an instance is. Names of nodes do not mind case.
type place struct{ node, instance string }

// covered are the instances that have a sidecar, however that fares: they are dialled through it or not at all. A
// sidecar that does not say of which instance it is covers all on its node.
type covered map[place]bool

func coveredBy(meshed []*facts.Instance) covered {
	c := make(covered, len(meshed))
	for _, in := range meshed {
		of := in.Service.ID
		if in.Service.Proxy != nil {
			of = in.Service.Proxy.DestinationServiceID
		}
		c[place{strings.ToLower(clean(in.Node.Node)), clean(of)}] = true
	}
	return c
}

func (c covered) has(e *Endpoint) bool {
	node := strings.ToLower(e.Node)
	return c[place{node, e.Instance}] || c[place{node, ""}]
}

// maxText bounds the texts of the catalog in what every proxy is told of an endpoint.
const maxText = 256

// clean is a text as messages can carry it.
func clean(text string) string {
	if len(text) > maxText {
		text = text[:maxText]
	}
	return strings.ToValidUTF8(text, "")
}

// protocol is that of a target's service.
func (r *resolver) protocol(t *chain.Target) string {
	c, _ := chain.Compile(chain.Request{Service: t.Service, Datacenter: t.Datacenter}, onlyDefaults{r.r})
	if c == nil {
		return ""
	}
	return c.Protocol
}

// onlyDefaults hides the entries that shape a chain.
type onlyDefaults struct{ chain.Entries }

// Entry implements [chain.Entries].
func (d onlyDefaults) Entry(kind chain.Kind, name string) chain.Entry {
	if kind == chain.KindServiceDefaults || kind == chain.KindProxyDefaults {
		return d.Entries.Entry(kind, name)
	}
	return nil
}
