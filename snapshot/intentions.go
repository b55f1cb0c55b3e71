package snapshot

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// IntentionsConfig is the name under which a sidecar finds who may talk to its service. It is a resource of
// its own, so that a change of it touches no listener.
const IntentionsConfig = "intentions"

// IntentionsKey is who may talk to a service. The product is [Intentions].
type IntentionsKey struct {
	Service string
	// TrustDomain is that of the certificates of the sources.
	TrustDomain string
	// Layer7 says that the service speaks a protocol of which requests can be told apart.
	Layer7 bool
}

// Product implements [Key].
func (IntentionsKey) Product() string { return ProductExtension }

// Intentions is who may talk to a service.
type Intentions struct {
	Key IntentionsKey
	// DefaultAllow says what becomes of what no rule is about.
	DefaultAllow bool
	// Rules are those that say something else than the default, of higher precedence first.
	Rules []IntentionRule
}

// IntentionRule is about one source.
type IntentionRule struct {
	// Source is a service, or [chain.WildcardName] for all but those in Except.
	Source string
	Except []string
	// Permissions are tried in order; the first that matches a request decides, and the default does where
	// none does. Without any the rule is about all that the source sends.
	Permissions []*chain.IntentionPermission
}

// EvictionKey is who may keep what is open to a service: filters judge a connection when it opens, and a
// request when it comes. The product is an [Eviction].
type EvictionKey struct{ IntentionsKey }

// Eviction is who may keep what is open.
type Eviction struct{ Intentions }

func (k EvictionKey) make(r *facts.Reader) (any, bool) {
	product, ok := k.IntentionsKey.make(r)
	if !ok {
		return nil, false
	}
	return Eviction{product.(Intentions)}, true
}

// entries are the intentions about a service; known is false while they are not.
func (k IntentionsKey) entries(r *facts.Reader) (list []*chain.ServiceIntentions, allow, known bool) {
	for _, name := range []string{k.Service, chain.WildcardName} {
		if e, ok := r.Entry(chain.KindServiceIntentions, name).(*chain.ServiceIntentions); ok {
			list = append(list, e)
		}
	}
	allow, _ = r.DefaultIntention()
	return list, allow, len(r.Unknown()) == 0
}

// unknown says why it is not known who may talk to the service; empty when it is.
func (k IntentionsKey) unknown(r *facts.Reader) string {
	topics := []facts.Topic{facts.Entries(chain.KindServiceIntentions), facts.DefaultIntention()}
	if _, state := r.View.Entry(chain.KindServiceIntentions, k.Service); state != facts.Unknown {
		topics = topics[1:]
	}
	for _, topic := range topics {
		if !r.Has(topic) {
			return r.Why(facts.ID{Topic: topic})
		}
	}
	return ""
}

func (k IntentionsKey) make(r *facts.Reader) (any, bool) {
	list, allow, known := k.entries(r)
	if !known {
		return nil, false
	}
	out := Intentions{Key: k, DefaultAllow: allow}
	if unverifiable(list) {
		if allow {
			out.Rules = []IntentionRule{{Source: chain.WildcardName}}
		}
		return out, true
	}
	var exact []string
	for _, s := range sources(list, allow) {
		rule, differs := out.rule(s)
		if s.Name == chain.WildcardName {
			rule.Except = slices.Clone(exact)
			slices.Reverse(rule.Except)
		} else {
			exact = append(exact, s.Name)
		}
		if differs {
			out.Rules = append(out.Rules, rule)
		}
	}
	return out, true
}

// unverifiable reports whether all requests must carry a token that nothing here can verify, so that none
// may pass.
func unverifiable(list []*chain.ServiceIntentions) bool {
	return slices.ContainsFunc(list, func(e *chain.ServiceIntentions) bool { return e.JWT != nil })
}

// sources are the intentions that count, of higher precedence first, each source once. Where the default is
// to deny, a wildcard overrides whatever follows it; where it is to allow, an exact source that is denied at
// every destination stays denied, as it is by Consul's own sidecars. Sources at a peer cannot connect: their
// certificates are of another authority.
func sources(list []*chain.ServiceIntentions, allow bool) []*chain.SourceIntention {
	var out []*chain.SourceIntention
	seen := map[string]bool{}
	for _, e := range list {
		own := slices.DeleteFunc(slices.Clone(e.Sources), func(s *chain.SourceIntention) bool { return s.Peer != "" })
		slices.SortStableFunc(own, func(a, b *chain.SourceIntention) int {
			return cmp.Or(cmp.Compare(b.Precedence, a.Precedence), strings.Compare(a.Name, b.Name))
		})
		for _, s := range own {
			if seen[s.Name] || seen[chain.WildcardName] && !allow {
				continue
			}
			seen[s.Name] = true
			out = append(out, s)
		}
	}
	return out
}

// rule is what an intention makes of the default; ok is false when that is nothing.
func (i *Intentions) rule(s *chain.SourceIntention) (rule IntentionRule, ok bool) {
	other := chain.IntentionAllow
	if i.DefaultAllow {
		other = chain.IntentionDeny
	}
	rule.Source = s.Name
	switch {
	case len(s.Permissions) == 0:
		return rule, s.Action == other
	case !i.Key.Layer7 || slices.ContainsFunc(s.Permissions, wantsToken):
		// what may pass cannot be told from the rest, so nothing may
		return rule, other == chain.IntentionDeny
	}
	rule.Permissions = s.Permissions
	return rule, slices.ContainsFunc(s.Permissions, func(p *chain.IntentionPermission) bool { return p.Action == other })
}

func wantsToken(p *chain.IntentionPermission) bool { return p.JWT != nil }

// notes say what of the intentions cannot be followed as written.
func (k IntentionsKey) notes(r *facts.Reader) []string {
	list, _, _ := k.entries(r)
	var notes []string
	for _, e := range list {
		if e.JWT != nil {
			notes = append(notes, fmt.Sprintf("service-intentions %q wants JSON web tokens, which are not supported: nobody may talk to %s", e.Name, k.Service))
		}
		for _, s := range e.Sources {
			switch {
			case s.Peer != "":
				notes = append(notes, fmt.Sprintf("service-intentions %q: the source %s at the peer %s cannot connect: cluster peering is not supported", e.Name, s.Name, s.Peer))
			case slices.ContainsFunc(s.Permissions, wantsToken):
				notes = append(notes, fmt.Sprintf("service-intentions %q wants JSON web tokens of %s, which are not supported: it may not talk to %s at all", e.Name, s.Name, k.Service))
			case len(s.Permissions) > 0 && !k.Layer7:
				notes = append(notes, fmt.Sprintf("service-intentions %q has permissions for %s, but %s is no HTTP service: it may not talk to it at all", e.Name, s.Name, k.Service))
			}
		}
	}
	return notes
}

// Make returns the product; ok is false while the facts do not suffice.
func (k IntentionsKey) Make(view facts.View) (Intentions, bool) {
	product, ok := k.make(view.Read())
	if !ok {
		return Intentions{}, false
	}
	return product.(Intentions), true
}
