package chain

import (
	"regexp"
	"slices"
	"strings"
)

func (f *findings) router(e *ServiceRouter) {
	for i := range e.Routes {
		path, r := at("Routes", i), &e.Routes[i]
		rewritable := false
		if r.Match != nil && r.Match.HTTP != nil {
			f.match(path+".Match.HTTP", r.Match.HTTP)
			rewritable = r.Match.HTTP.PathExact != "" || r.Match.HTTP.PathPrefix != ""
		}
		if d := r.Destination; d != nil {
			f.destination(path+".Destination", d, rewritable)
		}
	}
}

func (f *findings) match(path string, m *HTTPMatch) {
	f.paths(path, m.PathExact, m.PathPrefix, m.PathRegex)
	for i := range m.Header {
		f.headerMatch(at(path+".Header", i), &m.Header[i])
	}
	for i := range m.QueryParam {
		f.queryMatch(at(path+".QueryParam", i), &m.QueryParam[i])
	}
	f.methods(path+".Methods", m.Methods)
}

// paths looks at the three ways to match a path.
func (f *findings) paths(path, exact, prefix, pattern string) {
	if countSet(exact, prefix, pattern) > 1 {
		f.fault(CodePathForms, path, "more than one of PathExact, PathPrefix and PathRegex is set; keep one, or write a rule for each")
	}
	f.slash(path+".PathExact", exact)
	f.slash(path+".PathPrefix", prefix)
	f.regex(path+".PathRegex", pattern)
}

func (f *findings) methods(path string, list []string) {
	for i, method := range list {
		field := at(path, i)
		if !knownMethod(method) {
			f.fault(CodeMethod, field, "%q is not an HTTP method Consul knows; use one of %s", method, strings.Join(methods(), ", "))
		}
		if slices.Contains(list[:i], method) {
			f.fault(CodeMethodRepeated, field, "%s is listed before; leave it out here", method)
		}
	}
}

func (f *findings) slash(field, path string) {
	if path != "" && !strings.HasPrefix(path, "/") {
		f.fault(CodePathSlash, field, "%q does not begin with /; write %q", path, "/"+path)
	}
}

// regex warns only: Consul stores any text, and it is Envoy that refuses it later.
func (f *findings) regex(field, pattern string) {
	if _, err := regexp.Compile(pattern); err != nil {
		f.warn(CodeRegexNotCompile, field, "Envoy will refuse this pattern: %v", err)
	}
}

func (f *findings) headerMatch(path string, m *HeaderMatch) {
	if m.Name == "" {
		f.fault(CodeMatchName, path, "the header to match has no Name")
	}
	n := countSet(m.Exact, m.Prefix, m.Suffix, m.Regex)
	if m.Present {
		n++
	}
	if n != 1 {
		f.fault(CodeMatchForms, path, "%d of Present, Exact, Prefix, Suffix and Regex are set; set exactly one", n)
	}
	f.regex(path+".Regex", m.Regex)
}

func (f *findings) queryMatch(path string, m *QueryParamMatch) {
	if m.Name == "" {
		f.fault(CodeMatchName, path, "the query parameter to match has no Name")
	}
	n := countSet(m.Exact, m.Regex)
	if m.Present {
		n++
	}
	if n != 1 {
		f.fault(CodeMatchForms, path, "%d of Present, Exact and Regex are set; set exactly one", n)
	}
	f.regex(path+".Regex", m.Regex)
}

// destination leaves namespaces alone: in routes, and only there, the Community Edition acts on them.
func (f *findings) destination(path string, d *RouteDestination, rewritable bool) {
	if d.PrefixRewrite != "" && !rewritable {
		f.fault(CodePrefixRewrite, path+".PrefixRewrite",
			"there is no prefix to rewrite; match by PathExact or PathPrefix, or leave it out")
	}
	for i, condition := range d.RetryOn {
		if !slices.Contains(retryConditions(), condition) {
			f.fault(CodeRetryOn, at(path+".RetryOn", i), "%q is not a condition for a retry; use one of %s",
				condition, strings.Join(retryConditions(), ", "))
		}
	}
}

func methods() []string {
	return []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE"}
}

func knownMethod(m string) bool { return slices.Contains(methods(), m) }

// retryConditions are those of Envoy that Consul lets through.
func retryConditions() []string {
	return []string{
		"5xx", "gateway-error", "reset", "connect-failure", "envoy-ratelimited", "retriable-4xx",
		"refused-stream", "cancelled", "deadline-exceeded", "internal", "resource-exhausted", "unavailable",
	}
}

// countSet counts the values that are not empty.
func countSet(values ...string) int {
	n := 0
	for _, v := range values {
		if v != "" {
			n++
		}
	}
	return n
}
