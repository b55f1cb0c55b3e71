package snapshot

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// Config is what every plan and product has in common.
type Config struct {
	// Datacenter is the control plane's own.
	Datacenter string
	// TrustDomain ends every SNI and cluster name.
	TrustDomain string
	// Dry plans as if there were every certificate, to show what would be served. Who serves has it unset.
	Dry bool
}

// Ref is one resource of a client: a product under a name.
type Ref struct {
	Name string
	Key  Key
}

// Plan is the list of products a client gets, in parts. It names products and never depends on
// an instance, so that a health flip changes no plan. It does not change.
type Plan struct {
	Kind Kind
	// Hold says why nothing may be said to the client yet; empty when something may.
	Hold string
	// Unregistered says why the client is not known; it keeps what it has.
	Unregistered string
	// Own are the topics that must be followed to know which upstreams the client has.
	Own []facts.Topic
	*Selection
}

// Selection is what a plan is for. Clients that get the same share one. It does not change.
type Selection struct {
	Parts []*Part
	// Needs are the topics that must be followed for the parts, in order.
	Needs []facts.Topic

	resources []Ref
	pending   bool // some part is
}

// Part is what one upstream, or the service behind a sidecar, makes up of a plan. Plans share it.
type Part struct {
	// Name is the upstream's Envoy ID, or what a sidecar does for its own service.
	Name string
	// Bind is the address that the client's proxy listens at for it; with Name it tells the parts of a
	// plan apart.
	Bind string
	// Pending says why the part cannot be served as it should be; Resources is then what was
	// last good, if anything.
	Pending string
	// Missing says what is left out, of a part that is served all the same or of one that is not
	// supported: it is no reason to wait.
	Missing []string
	// Notes say what is likely a mistake although nothing is wrong: a service nobody knows.
	Notes []string
	// Problems are the configuration errors that the upstream's chain has now.
	Problems  []chain.Problem
	Resources []Ref

	needs []facts.Topic
	// broken says that it cannot be as it is written, so that what was last good stays.
	broken bool
}

// Topics are all topics that must be followed for the plan, in order.
func (p *Plan) Topics() []facts.Topic { return union(p.Own, p.Needs) }

// Complete reports whether the plan has all that the client should have. When not, what the client
// holds beyond the plan must not be taken away.
func (p *Plan) Complete() bool { return p.Hold == "" && p.Unregistered == "" && !p.pending }

// Resources returns each resource once. Where two parts name a resource differently,
// the one listed first has it.
func (s *Selection) Resources() []Ref { return s.resources }

func (s *Selection) collect() {
	type id struct{ product, name string }
	seen := map[id]bool{}
	for _, u := range s.Parts {
		s.pending = s.pending || u.Pending != ""
		for _, ref := range u.Resources {
			if k := (id{ref.Key.Product(), ref.Name}); !seen[k] {
				seen[k] = true
				s.resources = append(s.resources, ref)
			}
		}
	}
}

// union returns the topics of all lists, each once, in order.
func union(lists ...[]facts.Topic) []facts.Topic {
	all := map[facts.Topic]struct{}{}
	for _, list := range lists {
		for _, t := range list {
			all[t] = struct{}{}
		}
	}
	if len(all) == 0 {
		return nil
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b facts.Topic) int {
		return cmp.Or(strings.Compare(string(a.Kind), string(b.Kind)),
			strings.Compare(a.Datacenter, b.Datacenter), strings.Compare(a.Name, b.Name))
	})
}

// holdReason is why nothing can be said yet: every part is pending without a last good one.
// Saying nothing leaves a new proxy waiting, where an empty answer would start it empty.
func holdReason(parts []*Part) string {
	for _, p := range parts {
		if !p.lacking() {
			return ""
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return parts[0].Pending
}

// lacking reports whether a part has nothing, neither what should be served nor what was last good.
func (u *Part) lacking() bool { return u.kept() && len(u.Resources) == 0 }

// kept reports whether what was last good of a part is to stay, because nothing better can be served.
func (u *Part) kept() bool { return u.Pending != "" || u.broken }
