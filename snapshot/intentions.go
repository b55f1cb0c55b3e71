package snapshot

import (
	"cmp"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
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

// entries are the intentions about a service.
func (k IntentionsKey) entries(r *facts.Reader) (list []*chain.ServiceIntentions) {
	for _, name := range []string{k.Service, chain.WildcardName} {
		if e, ok := r.Entry(chain.KindServiceIntentions, name).(*chain.ServiceIntentions); ok {
			list = append(list, e)
		}
	}
	return list
}

// pending says why it is not known who may talk to the service, or why something else is not that was read;
// empty when all is.
func (k IntentionsKey) pending(r *facts.Reader) string {
	k.entries(r)
	if topic := facts.DefaultIntention(); !r.Has(topic) {
		return r.Why(facts.ID{Topic: topic})
	}
	if unknown := r.Unknown(); len(unknown) > 0 {
		return r.Why(unknown[0])
	}
	return ""
}

func (k IntentionsKey) make(r *facts.Reader) (any, bool) {
	list := k.entries(r)
	allow, _ := r.DefaultIntention()
	if len(r.Unknown()) > 0 {
		return nil, false
	}
	if slices.ContainsFunc(list, wantsTokens) {
		return Intentions{Key: k}, true // nobody passes, not even who is no service
	}
	out := Intentions{Key: k, DefaultAllow: allow}
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

// wantsTokens reports whether all requests must carry a token that nothing here can verify.
func wantsTokens(e *chain.ServiceIntentions) bool { return e.JWT != nil }

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
	case !i.Key.Layer7 || slices.ContainsFunc(s.Permissions, func(p *chain.IntentionPermission) bool { return unjudged(p) != "" }):
		// what may pass cannot be told from the rest, so nothing may
		return rule, other == chain.IntentionDeny
	}
	rule.Permissions = s.Permissions
	return rule, slices.ContainsFunc(s.Permissions, func(p *chain.IntentionPermission) bool { return p.Action == other })
}

// unjudged says why it cannot be told which requests a permission is about; empty when it can. Consul stores
// what Envoy refuses, and with it all the rules of the service.
func unjudged(p *chain.IntentionPermission) string {
	if p.JWT != nil {
		return "wants JSON web tokens, which are not supported"
	}
	if p.HTTP == nil {
		return ""
	}
	patterns := append([]string{p.HTTP.PathRegex}, p.HTTP.Methods...)
	for _, h := range p.HTTP.Header {
		if h.Name == "" || strings.ContainsAny(h.Name, "\x00\r\n") {
			return fmt.Sprintf("names a header %.64q, which cannot be", h.Name)
		}
		patterns = append(patterns, h.Regex)
	}
	for _, pattern := range patterns {
		if err := checkPattern(pattern); err != nil {
			return fmt.Sprintf("has a pattern that Envoy refuses (%.200s)", err)
		}
	}
	return ""
}

// escapes are all escapes of a pattern, also that of a backslash.
var escapes = regexp.MustCompile(`(?s)\\(?:x\{([0-9A-Fa-f]+)\}|([0-7]{3})|.)`)

// checkPattern returns an error for a pattern that Envoy refuses. Its language is that of our own library, but
// newer Envoys match bytes, and take no escape that is more than one.
func checkPattern(pattern string) error {
	if _, err := syntax.Parse(pattern, syntax.Perl); err != nil {
		return err
	}
	for _, found := range escapes.FindAllStringSubmatch(pattern, -1) {
		for digits, base := range map[string]int{found[1]: 16, found[2]: 8} {
			if digits == "" {
				continue
			}
			if _, err := strconv.ParseUint(digits, base, 8); err != nil {
				return fmt.Errorf("%s is more than a byte: write the character itself", found[0])
			}
		}
	}
	return nil
}

// notes say what of the intentions cannot be followed as written.
func (k IntentionsKey) notes(r *facts.Reader) []string {
	var notes []string
	for _, e := range k.entries(r) {
		if wantsTokens(e) {
			notes = append(notes, fmt.Sprintf("service-intentions %q wants JSON web tokens, which are not supported: nobody may talk to %s", e.Name, k.Service))
		}
		for _, s := range e.Sources {
			if reason := k.silences(s); reason != "" {
				notes = append(notes, fmt.Sprintf("service-intentions %q: %s", e.Name, reason))
			}
		}
	}
	return notes
}

// silences says why a source may not talk at all although an intention says more of it; empty when it may.
func (k IntentionsKey) silences(s *chain.SourceIntention) string {
	switch {
	case s.Peer != "":
		return fmt.Sprintf("the source %s at the peer %s cannot connect: cluster peering is not supported", s.Name, s.Peer)
	case len(s.Permissions) > 0 && !k.Layer7:
		return fmt.Sprintf("there are permissions for %s, but %s is no HTTP service: it may not talk to it at all", s.Name, k.Service)
	}
	for _, p := range s.Permissions {
		if reason := unjudged(p); reason != "" {
			return fmt.Sprintf("a permission of %s %s: it may not talk to %s at all", s.Name, reason, k.Service)
		}
	}
	return ""
}

// Make returns the product; ok is false while the facts do not suffice.
func (k IntentionsKey) Make(view facts.View) (Intentions, bool) {
	product, ok := k.make(view.Read())
	if !ok {
		return Intentions{}, false
	}
	return product.(Intentions), true
}
