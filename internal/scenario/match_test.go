package scenario

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// findRoute returns the first route that takes the request, nil when none does.
func findRoute(config *routev3.RouteConfiguration, r request) (*routev3.Route, error) {
	hosts := config.GetVirtualHosts()
	if len(hosts) != 1 || !slices.Equal(hosts[0].GetDomains(), []string{"*"}) {
		return nil, fmt.Errorf("routes %s have not just one virtual host for all domains", config.GetName())
	}
	if err := only(hosts[0], "name", "domains", "routes"); err != nil {
		return nil, err
	}
	for _, route := range hosts[0].GetRoutes() {
		ok, err := takes(route.GetMatch(), r)
		if err != nil {
			return nil, err
		}
		if ok {
			return route, nil
		}
	}
	return nil, nil
}

func takes(m *routev3.RouteMatch, r request) (bool, error) {
	if err := only(m, "prefix", "path", "safe_regex", "case_sensitive", "headers", "query_parameters"); err != nil {
		return false, err
	}
	ok, err := takesPath(m, r.path)
	if !ok || err != nil {
		return false, err
	}
	for _, h := range m.GetHeaders() {
		if ok, err := takesHeader(h, r); !ok || err != nil {
			return false, err
		}
	}
	for _, q := range m.GetQueryParameters() {
		if ok, err := takesQuery(q, r); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

func takesPath(m *routev3.RouteMatch, path string) (bool, error) {
	ignoreCase := m.GetCaseSensitive() != nil && !m.GetCaseSensitive().GetValue()
	fold := func(s string) string {
		if ignoreCase {
			return strings.ToLower(s)
		}
		return s
	}
	switch by := m.GetPathSpecifier().(type) {
	case *routev3.RouteMatch_Prefix:
		return strings.HasPrefix(fold(path), fold(by.Prefix)), nil
	case *routev3.RouteMatch_Path:
		return fold(path) == fold(by.Path), nil
	case *routev3.RouteMatch_SafeRegex:
		return fully(by.SafeRegex, path)
	}
	return false, fmt.Errorf("the simulator does not know the path matcher %T", m.GetPathSpecifier())
}

func takesHeader(h *routev3.HeaderMatcher, r request) (bool, error) {
	if err := only(h, "name", "invert_match", "present_match", "string_match"); err != nil {
		return false, err
	}
	value, present := r.headers[strings.ToLower(h.GetName())]
	switch by := h.GetHeaderMatchSpecifier().(type) {
	case *routev3.HeaderMatcher_PresentMatch:
		return (present == by.PresentMatch) != h.GetInvertMatch(), nil
	case *routev3.HeaderMatcher_StringMatch:
		if !present {
			return false, nil // for Envoy also when the match is inverted
		}
		ok, err := takesString(by.StringMatch, value)
		return ok != h.GetInvertMatch(), err
	}
	return false, fmt.Errorf("the simulator does not know the header matcher %T", h.GetHeaderMatchSpecifier())
}

func takesQuery(q *routev3.QueryParameterMatcher, r request) (bool, error) {
	if err := only(q, "name", "string_match", "present_match"); err != nil {
		return false, err
	}
	values, present := r.query[q.GetName()]
	switch by := q.GetQueryParameterMatchSpecifier().(type) {
	case *routev3.QueryParameterMatcher_PresentMatch:
		return present == by.PresentMatch, nil
	case *routev3.QueryParameterMatcher_StringMatch:
		if !present {
			return false, nil
		}
		return takesString(by.StringMatch, values[0])
	}
	return false, fmt.Errorf("the simulator does not know the query matcher %T", q.GetQueryParameterMatchSpecifier())
}

func takesString(m *matcherv3.StringMatcher, s string) (bool, error) {
	if err := only(m, "exact", "prefix", "suffix", "safe_regex"); err != nil {
		return false, err
	}
	switch by := m.GetMatchPattern().(type) {
	case *matcherv3.StringMatcher_Exact:
		return s == by.Exact, nil
	case *matcherv3.StringMatcher_Prefix:
		return strings.HasPrefix(s, by.Prefix), nil
	case *matcherv3.StringMatcher_Suffix:
		return strings.HasSuffix(s, by.Suffix), nil
	case *matcherv3.StringMatcher_SafeRegex:
		return fully(by.SafeRegex, s)
	}
	return false, fmt.Errorf("the simulator does not know the string matcher %T", m.GetMatchPattern())
}

// fully matches the whole of s, as Envoy does.
func fully(m *matcherv3.RegexMatcher, s string) (bool, error) {
	if err := only(m, "regex"); err != nil {
		return false, err
	}
	re, err := regexp.Compile(`\A(?:` + m.GetRegex() + `)\z`)
	if err != nil {
		return false, err
	}
	return re.MatchString(s), nil
}
