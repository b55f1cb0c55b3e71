package envoy

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/snapshot"
)

// call is a request, or with no method a connection.
type call struct {
	source, path, method string
	headers              map[string]string
}

func (c call) id() string { return "spiffe://mesh.consul/ns/default/dc/dc7/svc/" + c.source }

// passes judges as Envoy's RBAC filter is documented to: the policies are joined by or, and so are the
// permissions and the principals of each.
func passes(r *rbacv3.RBAC, c call) bool {
	matched := false
	for _, p := range r.GetPolicies() {
		who, what := false, false
		for _, id := range p.GetPrincipals() {
			who = who || principalMatches(id, c)
		}
		for _, perm := range p.GetPermissions() {
			what = what || permissionMatches(perm, c)
		}
		matched = matched || who && what
	}
	return matched == (r.GetAction() == rbacv3.RBAC_ALLOW)
}

func principalMatches(p *rbacv3.Principal, c call) bool {
	switch id := p.GetIdentifier().(type) {
	case *rbacv3.Principal_Authenticated_:
		return textMatches(id.Authenticated.GetPrincipalName(), c.id())
	case *rbacv3.Principal_NotId:
		return !principalMatches(id.NotId, c)
	case *rbacv3.Principal_AndIds:
		for _, each := range id.AndIds.GetIds() {
			if !principalMatches(each, c) {
				return false
			}
		}
		return true
	}
	panic(fmt.Sprintf("unexpected principal %v", p))
}

func permissionMatches(p *rbacv3.Permission, c call) bool {
	switch rule := p.GetRule().(type) {
	case *rbacv3.Permission_Any:
		return true
	case *rbacv3.Permission_UrlPath:
		return textMatches(rule.UrlPath.GetPath(), c.path)
	case *rbacv3.Permission_Header:
		return headerMatches(rule.Header, c)
	case *rbacv3.Permission_NotRule:
		return !permissionMatches(rule.NotRule, c)
	case *rbacv3.Permission_OrRules:
		return slices.ContainsFunc(rule.OrRules.GetRules(), func(each *rbacv3.Permission) bool { return permissionMatches(each, c) })
	case *rbacv3.Permission_AndRules:
		for _, each := range rule.AndRules.GetRules() {
			if !permissionMatches(each, c) {
				return false
			}
		}
		return true
	}
	panic(fmt.Sprintf("unexpected permission %v", p))
}

func headerMatches(m *routev3.HeaderMatcher, c call) bool {
	value, there := c.headers[m.GetName()]
	if m.GetName() == ":method" {
		value, there = c.method, true
	}
	if !there && !m.GetPresentMatch() {
		return false
	}
	matches := there
	if s := m.GetStringMatch(); s != nil {
		matches = textMatches(s, value)
	}
	return matches != m.GetInvertMatch()
}

func textMatches(m *matcherv3.StringMatcher, s string) bool {
	fold := func(t string) string {
		if m.GetIgnoreCase() {
			return strings.ToLower(t)
		}
		return t
	}
	switch p := m.GetMatchPattern().(type) {
	case *matcherv3.StringMatcher_Exact:
		return fold(s) == fold(p.Exact)
	case *matcherv3.StringMatcher_Prefix:
		return strings.HasPrefix(fold(s), fold(p.Prefix))
	case *matcherv3.StringMatcher_Suffix:
		return strings.HasSuffix(fold(s), fold(p.Suffix))
	case *matcherv3.StringMatcher_Contains:
		return strings.Contains(fold(s), fold(p.Contains))
	case *matcherv3.StringMatcher_SafeRegex:
		return compiled(p.SafeRegex.GetRegex()).MatchString(s)
	}
	panic(fmt.Sprintf("unexpected matcher %v", m))
}

// may judges by what is documented of intentions: the one of the highest precedence decides, of its
// permissions the first that matches, and without either the default.
func may(list []*chain.ServiceIntentions, allow, layer7 bool, c call) bool {
	for _, level := range []struct{ destination, source string }{
		{"web", c.source}, {"web", "*"}, {"*", c.source}, {"*", "*"},
	} {
		for _, e := range list {
			for _, s := range e.Sources {
				if e.Name != level.destination || s.Name != level.source {
					continue
				}
				return decides(s, allow, layer7, c)
			}
		}
	}
	return allow
}

func decides(s *chain.SourceIntention, allow, layer7 bool, c call) bool {
	if len(s.Permissions) == 0 {
		return s.Action == chain.IntentionAllow
	}
	if !layer7 {
		return false
	}
	for _, p := range s.Permissions {
		h := p.HTTP
		ok := (h.PathExact == "" || c.path == h.PathExact) && (h.PathPrefix == "" || strings.HasPrefix(c.path, h.PathPrefix)) &&
			(len(h.Methods) == 0 || strings.Contains(strings.Join(h.Methods, " "), c.method))
		for _, m := range h.Header {
			value, there := c.headers[m.Name]
			ok = ok && (there == m.Present || m.Exact != "" && value == m.Exact)
		}
		if ok {
			return p.Action == chain.IntentionAllow
		}
	}
	return allow
}

// deniedEverywhere is where Consul's own sidecars are stricter than the precedence says, and so are ours: the
// default is to allow, a wildcard at the service says so too, and the source is denied at every destination.
func deniedEverywhere(list []*chain.ServiceIntentions, layer7 bool, c call) bool {
	for _, e := range list {
		for _, s := range e.Sources {
			if e.Name == "*" && s.Name == c.source && !decides(s, true, layer7, c) {
				return true
			}
		}
	}
	return false
}

// compiled keeps each pattern: compiling them is most of what a test takes.
var compiled = func() func(string) *regexp.Regexp {
	var known sync.Map
	return func(pattern string) *regexp.Regexp {
		re, ok := known.Load(pattern)
		if !ok {
			re, _ = known.LoadOrStore(pattern, regexp.MustCompile("^(?:"+pattern+")$"))
		}
		return re.(*regexp.Regexp)
	}
}()

var sources = []string{"a", "b", "c", "*"}

func randomIntentions(rnd *rand.Rand) []*chain.ServiceIntentions {
	action := func() chain.IntentionAction {
		return []chain.IntentionAction{chain.IntentionAllow, chain.IntentionDeny}[rnd.IntN(2)]
	}
	var list []*chain.ServiceIntentions
	for _, name := range []string{"web", "*"} {
		e := &chain.ServiceIntentions{Header: chain.Header{Name: name}}
		for _, source := range sources {
			if rnd.IntN(2) == 0 {
				continue
			}
			s := &chain.SourceIntention{Name: source, Action: action()}
			for range rnd.IntN(4) {
				p := &chain.IntentionPermission{Action: action(), HTTP: &chain.IntentionHTTP{}}
				switch rnd.IntN(4) {
				case 0:
					p.HTTP.PathExact = "/one"
				case 1:
					p.HTTP.PathPrefix = "/o"
				case 2:
					p.HTTP.Methods = []string{"GET", "PUT"}[:1+rnd.IntN(2)]
				case 3:
					p.HTTP.Header = []chain.IntentionHeader{{Name: "x", Present: true}}
				}
				s.Action, s.Permissions = "", append(s.Permissions, p)
			}
			e.Sources = append(e.Sources, s)
		}
		list = append(list, chain.Normalize(e).(*chain.ServiceIntentions))
	}
	return list
}

// made is the product of intentions, by way of the facts.
func made(t *testing.T, list []*chain.ServiceIntentions, allow, layer7 bool) snapshot.Intentions {
	t.Helper()
	store := facts.New()
	store.Commit(func(tx *facts.Tx) {
		entries := make([]chain.Entry, 0, len(list))
		for _, e := range list {
			entries = append(entries, e)
		}
		tx.Entries(chain.KindServiceIntentions, entries, facts.Reading{Confirmed: true})
		tx.DefaultIntention(allow)
	})
	product, ok := snapshot.IntentionsKey{Service: "web", TrustDomain: "mesh.consul", Layer7: layer7}.Make(store.View())
	if !ok {
		t.Fatal("the intentions are not known")
	}
	return product
}

func TestRulesDecideAsIntentionsSay(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for n := range 2000 {
		list, allow, layer7 := randomIntentions(rnd), rnd.IntN(2) == 0, rnd.IntN(4) > 0
		r := rules(made(t, list, allow, layer7))
		for _, source := range []string{"a", "b", "c", "d", "ab"} {
			for _, path := range []string{"/one", "/other", "/x"} {
				for _, method := range []string{"GET", "PUT", "POST"} {
					for _, headers := range []map[string]string{nil, {"x": "1"}} {
						c := call{source, path, method, headers}
						want := may(list, allow, layer7, c)
						if got := passes(r, c); got != want && !(allow && !got && deniedEverywhere(list, layer7, c)) {
							t.Fatalf("round %d: default allow %v, layer 7 %v: %+v passes: %v, want %v\n%v", n, allow, layer7, c, got, want, r)
						}
					}
				}
			}
		}
	}
}

func TestAnotherTrustDomainOrNameNeverPasses(t *testing.T) {
	list := []*chain.ServiceIntentions{{Header: chain.Header{Name: "web"}, Sources: []*chain.SourceIntention{{Name: "a.b", Action: chain.IntentionAllow, Precedence: 9}}}}
	r := rules(made(t, list, false, false))
	id := r.GetPolicies()[connectionRules].GetPrincipals()[0].GetAuthenticated().GetPrincipalName()
	for uri, want := range map[string]bool{
		"spiffe://mesh.consul/ns/default/dc/dc1/svc/a.b":    true,
		"spiffe://mesh.consul/ns/default/dc/dc1/svc/axb":    false,
		"spiffe://other.consul/ns/default/dc/dc1/svc/a.b":   false,
		"spiffe://mesh.consul/ns/default/dc/dc1/svc/a.b/c":  false,
		"spiffe://mesh.consul/ns/default/dc/d/e/svc/a.b":    false,
		"xspiffe://mesh.consul/ns/default/dc/dc1/svc/a.b":   false,
		"spiffe://mesh.consul/ns/default/dc/dc1/svc/a.bspi": false,
	} {
		if got := textMatches(id, uri); got != want {
			t.Errorf("%s matches: %v, want %v", uri, got, want)
		}
	}
}

// Identities are URIs, and their text is no pattern.
func TestANameIsLookedForAsCertificatesHaveIt(t *testing.T) {
	for name, want := range map[string]string{"my service": "my%20service", "a+b(c": "a+b%28c", "50%": "50%25"} {
		i := snapshot.Intentions{Key: snapshot.IntentionsKey{TrustDomain: "mesh.consul"}, Rules: []snapshot.IntentionRule{{Source: name}}}
		uri := "spiffe://mesh.consul/ns/default/dc/dc1/svc/" + want
		id := rules(i).GetPolicies()[connectionRules].GetPrincipals()[0].GetAuthenticated().GetPrincipalName()
		if !textMatches(id, uri) {
			t.Errorf("%v does not match %s", id, uri)
		}
		if !staying(stays(i), uri) {
			t.Errorf("what %q has open is ended: %+v", name, stays(i))
		}
		if peer := snapshot.SpiffeID("mesh.consul", &chain.Target{Datacenter: "dc1", Service: name}); peer != uri {
			t.Errorf("who is dialled must be %s, want %s", peer, uri)
		}
	}
}

func TestWhatCannotBeToldApartDoesNotPass(t *testing.T) {
	token := &chain.JWTRequirement{Providers: []*chain.JWTProvider{{Name: "p"}}}
	allowed := &chain.IntentionPermission{Action: chain.IntentionAllow, HTTP: &chain.IntentionHTTP{PathPrefix: "/"}}
	withToken := &chain.IntentionPermission{Action: chain.IntentionAllow, HTTP: &chain.IntentionHTTP{PathPrefix: "/"}, JWT: token}
	for name, tc := range map[string]struct {
		entry  chain.ServiceIntentions
		layer7 bool
	}{
		"permissions of a service without requests": {chain.ServiceIntentions{Sources: []*chain.SourceIntention{{Name: "a", Permissions: []*chain.IntentionPermission{allowed}}}}, false},
		"a permission that wants a token":           {chain.ServiceIntentions{Sources: []*chain.SourceIntention{{Name: "a", Permissions: []*chain.IntentionPermission{withToken}}}}, true},
		"a destination that wants a token":          {chain.ServiceIntentions{JWT: token, Sources: []*chain.SourceIntention{{Name: "a", Action: chain.IntentionAllow}}}, true},
	} {
		tc.entry.Name = "web"
		for _, allow := range []bool{false, true} {
			r := rules(made(t, []*chain.ServiceIntentions{&tc.entry}, allow, tc.layer7))
			if passes(r, call{source: "a", path: "/", method: "GET"}) {
				t.Errorf("%s, default allow %v: it passes", name, allow)
			}
			// What is no service has a certificate of the mesh too: an agent, a gateway.
			if tc.entry.JWT != nil && (r.GetAction() != rbacv3.RBAC_ALLOW || len(r.GetPolicies()) > 0) {
				t.Errorf("%s, default allow %v: somebody passes: %v", name, allow, r)
			}
		}
	}
}
