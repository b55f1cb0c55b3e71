package destination

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
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
	if r.name.Peer != "" {
		r.out.State = NoEndpoints
		r.out.Notes = append(r.out.Notes, fmt.Sprintf("%s: cluster peering is not supported", r.name.Host()))
		return
	}
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
	for _, kind := range facts.VirtualKinds() {
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
	if kind == chain.KindServiceDefaults {
		// It speaks as its service does.
		if defaults, _ := s.Entries.Entry(kind, s.name.Service).(*chain.ServiceDefaults); defaults != nil {
			own := *defaults
			own.Name = subsetName
			return &own
		}
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
	switch {
	case r.out.Set != nil:
		r.out.Pending = "" // what is not known of others to fail over to says nothing
	case r.out.Pending != "":
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
