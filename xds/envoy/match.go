package envoy

import (
	"regexp"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/catenary-mesh/catenary/chain"
)

func anyPath() *routev3.RouteMatch {
	return &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}}
}

// match translates which requests a route takes.
func match(r *chain.ServiceRoute) *routev3.RouteMatch {
	if r == nil || r.Match == nil || r.Match.HTTP == nil {
		return anyPath()
	}
	h := r.Match.HTTP
	out := anyPath()
	switch {
	case h.PathExact != "":
		out.PathSpecifier = &routev3.RouteMatch_Path{Path: h.PathExact}
	case h.PathPrefix != "":
		out.PathSpecifier = &routev3.RouteMatch_Prefix{Prefix: h.PathPrefix}
	case h.PathRegex != "":
		out.PathSpecifier = &routev3.RouteMatch_SafeRegex{SafeRegex: pathRegex(h)}
	}
	if h.CaseInsensitive && h.PathRegex == "" {
		out.CaseSensitive = wrapperspb.Bool(false)
	}
	for i := range h.Header {
		out.Headers = append(out.Headers, headerMatch(&h.Header[i]))
	}
	if len(h.Methods) > 0 {
		out.Headers = append(out.Headers, methodMatch(h.Methods))
	}
	for i := range h.QueryParam {
		out.QueryParameters = append(out.QueryParameters, queryMatch(&h.QueryParam[i]))
	}
	return out
}

// pathRegex writes case-insensitivity into the expression: Envoy's own flag does not hold for regexes.
func pathRegex(h *chain.HTTPMatch) *matcherv3.RegexMatcher {
	expression := h.PathRegex
	if h.CaseInsensitive {
		expression = "(?i:" + expression + ")"
	}
	return &matcherv3.RegexMatcher{Regex: expression}
}

func headerMatch(h *chain.HeaderMatch) *routev3.HeaderMatcher {
	out := &routev3.HeaderMatcher{Name: h.Name, InvertMatch: h.Invert}
	var s *matcherv3.StringMatcher
	switch {
	case h.Exact != "":
		s = exactly(h.Exact)
	case h.Prefix != "":
		s = &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: h.Prefix}}
	case h.Suffix != "":
		s = &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Suffix{Suffix: h.Suffix}}
	case h.Regex != "":
		s = matching(h.Regex)
	default:
		out.HeaderMatchSpecifier = &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}
		return out
	}
	out.HeaderMatchSpecifier = &routev3.HeaderMatcher_StringMatch{StringMatch: s}
	return out
}

func methodMatch(methods []string) *routev3.HeaderMatcher {
	s := exactly(methods[0])
	if len(methods) > 1 {
		quoted := make([]string, len(methods))
		for i, m := range methods {
			quoted[i] = regexp.QuoteMeta(m)
		}
		s = matching(strings.Join(quoted, "|"))
	}
	return &routev3.HeaderMatcher{
		Name:                 ":method",
		HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: s},
	}
}

func queryMatch(q *chain.QueryParamMatch) *routev3.QueryParameterMatcher {
	out := &routev3.QueryParameterMatcher{Name: q.Name}
	switch {
	case q.Exact != "":
		out.QueryParameterMatchSpecifier = &routev3.QueryParameterMatcher_StringMatch{StringMatch: exactly(q.Exact)}
	case q.Regex != "":
		out.QueryParameterMatchSpecifier = &routev3.QueryParameterMatcher_StringMatch{StringMatch: matching(q.Regex)}
	default:
		out.QueryParameterMatchSpecifier = &routev3.QueryParameterMatcher_PresentMatch{PresentMatch: true}
	}
	return out
}

func exactly(s string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: s}}
}

func matching(expression string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{
		SafeRegex: &matcherv3.RegexMatcher{Regex: expression},
	}}
}
