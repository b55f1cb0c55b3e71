package envoy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	netrbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/snapshot"
)

// connectionRules is the name of the policy for what is about all that a source sends. Dashboards know it.
const connectionRules = "consul-intentions-layer4"

// intentions translates who may talk to a service into a filter's configuration: of requests where the
// service speaks a protocol that has them, else of connections.
func intentions(name string, i snapshot.Intentions) *corev3.TypedExtensionConfig {
	out := &corev3.TypedExtensionConfig{Name: name}
	if i.Key.Layer7 {
		out.TypedConfig = pack(&httprbacv3.RBAC{Rules: rules(i)})
	} else {
		out.TypedConfig = pack(&netrbacv3.RBAC{Rules: rules(i), StatPrefix: "connect_authz"})
	}
	return out
}

// rules lists what differs from the default. Without any, a list of what is allowed allows nothing, and one
// of what is denied denies nothing.
func rules(i snapshot.Intentions) *rbacv3.RBAC {
	out := &rbacv3.RBAC{Action: rbacv3.RBAC_ALLOW}
	listed := chain.IntentionAllow
	if i.DefaultAllow {
		out.Action, listed = rbacv3.RBAC_DENY, chain.IntentionDeny
	}
	if len(i.Rules) == 0 {
		return out
	}
	out.Policies = map[string]*rbacv3.Policy{}
	for n, rule := range i.Rules {
		who := principal(i.Key.TrustDomain, rule)
		if len(rule.Permissions) > 0 {
			out.Policies[fmt.Sprintf("consul-intentions-layer7-%d", n)] = &rbacv3.Policy{
				Principals: []*rbacv3.Principal{who}, Permissions: permissions(rule.Permissions, listed),
			}
			continue
		}
		if out.Policies[connectionRules] == nil {
			out.Policies[connectionRules] = &rbacv3.Policy{Permissions: []*rbacv3.Permission{anything()}}
		}
		p := out.Policies[connectionRules]
		p.Principals = append(p.Principals, who)
	}
	return out
}

// principal is whom a rule is about.
func principal(trustDomain string, rule snapshot.IntentionRule) *rbacv3.Principal {
	who := service(trustDomain, rule.Source)
	if len(rule.Except) == 0 {
		return who
	}
	ids := []*rbacv3.Principal{who}
	for _, name := range rule.Except {
		ids = append(ids, &rbacv3.Principal{Identifier: &rbacv3.Principal_NotId{NotId: service(trustDomain, name)}})
	}
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_AndIds{AndIds: &rbacv3.Principal_Set{Ids: ids}}}
}

// service is whoever has a certificate of the service, in any datacenter.
func service(trustDomain, name string) *rbacv3.Principal {
	if name == chain.WildcardName {
		name = "[^/]+"
	} else {
		name = regexp.QuoteMeta(snapshot.NameInURI(name))
	}
	id := fmt.Sprintf("^spiffe://%s/ns/default/dc/[^/]+/svc/%s$", trustDomain, name)
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_Authenticated_{Authenticated: &rbacv3.Principal_Authenticated{
		PrincipalName: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: id}}},
	}}}
}

// permissions are those with the action, each but for what those before it match: the first decides.
func permissions(list []*chain.IntentionPermission, action chain.IntentionAction) []*rbacv3.Permission {
	var out []*rbacv3.Permission
	for n, p := range list {
		if p.Action != action {
			continue
		}
		all := []*rbacv3.Permission{requests(p)}
		for _, before := range slices.Backward(list[:n]) {
			all = append(all, &rbacv3.Permission{Rule: &rbacv3.Permission_NotRule{NotRule: requests(before)}})
		}
		out = append(out, allOf(all))
	}
	return out
}

// requests are those that a permission is about.
func requests(p *chain.IntentionPermission) *rbacv3.Permission {
	h := p.HTTP
	if h == nil {
		return anything()
	}
	var all []*rbacv3.Permission
	if m := pathOf(h); m != nil {
		all = append(all, &rbacv3.Permission{Rule: &rbacv3.Permission_UrlPath{
			UrlPath: &matcherv3.PathMatcher{Rule: &matcherv3.PathMatcher_Path{Path: m}},
		}})
	}
	for _, m := range h.Header {
		rule := headerRule(headerOf(m))
		if p.Action == chain.IntentionDeny {
			rule = anywhere(m, rule)
		}
		all = append(all, rule)
	}
	if len(h.Methods) > 0 {
		all = append(all, headerRule(&routev3.HeaderMatcher{
			Name: ":method", HeaderMatchSpecifier: text(pattern(strings.Join(h.Methods, "|"))),
		}))
	}
	if len(all) == 0 {
		return anything()
	}
	return allOf(all)
}

func allOf(all []*rbacv3.Permission) *rbacv3.Permission {
	if len(all) == 1 {
		return all[0]
	}
	return &rbacv3.Permission{Rule: &rbacv3.Permission_AndRules{AndRules: &rbacv3.Permission_Set{Rules: all}}}
}

func anything() *rbacv3.Permission {
	return &rbacv3.Permission{Rule: &rbacv3.Permission_Any{Any: true}}
}

func headerRule(m *routev3.HeaderMatcher) *rbacv3.Permission {
	return &rbacv3.Permission{Rule: &rbacv3.Permission_Header{Header: m}}
}

// pathOf is nil where the path does not matter.
func pathOf(h *chain.IntentionHTTP) *matcherv3.StringMatcher {
	switch {
	case h.PathExact != "":
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: h.PathExact}}
	case h.PathPrefix != "":
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: h.PathPrefix}}
	case h.PathRegex != "":
		return pattern(h.PathRegex)
	}
	return nil
}

// pattern matches the whole of a text.
func pattern(regex string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: regex}}}
}
