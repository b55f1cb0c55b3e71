package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/catenary-mesh/catenary/chain"
)

// Request is an HTTP request, as far as routes look at it.
type Request struct {
	// Method is that of HTTP, such as GET.
	Method string
	// Host is whom it is for, which HTTP/2 calls the authority.
	Host string
	// Path begins with a slash and has no query.
	Path string
	// Headers and Query are in the order in which they are sent; names may repeat. Of a query parameter that
	// repeats Envoy looks at the first one, and of a header at each value: one that matches suffices.
	Headers []Pair `json:",omitempty"`
	Query   []Pair `json:",omitempty"`
}

// Pair is a header, or a query parameter as it is in the URL: nothing of it is decoded, as in Envoy.
type Pair struct {
	Name  string
	Value string `json:",omitempty"`
}

// Refuses says what of a route's match does not hold for a request, each in a few words; empty when the route
// takes it. The rules are those of Envoy for what it is sent: a header that is missing matches nothing, not
// even an inverted matcher, but for one that asks whether it is present.
func (r Request) Refuses(route *chain.ServiceRoute) []string {
	if route == nil || route.Match == nil || route.Match.HTTP == nil {
		return nil
	}
	m := route.Match.HTTP
	var why []string
	note := func(reason string) {
		if reason != "" {
			why = append(why, reason)
		}
	}
	note(r.refusesPath(m))
	for i := range m.Header {
		note(r.refusesHeader(&m.Header[i]))
	}
	for i := range m.QueryParam {
		note(r.refusesQuery(&m.QueryParam[i]))
	}
	note(r.refusesMethod(m.Methods))
	return why
}

func (r Request) refusesPath(m *chain.HTTPMatch) string {
	fold, how := func(s string) string { return s }, ""
	if m.CaseInsensitive {
		fold, how = lowerASCII, " in any case"
	}
	switch {
	case m.PathExact != "" && fold(r.Path) != fold(m.PathExact):
		return fmt.Sprintf("the path %s is not %s%s", r.Path, m.PathExact, how)
	case m.PathExact != "":
		return ""
	case m.PathPrefix != "" && !strings.HasPrefix(fold(r.Path), fold(m.PathPrefix)):
		return fmt.Sprintf("the path %s does not begin with %s%s", r.Path, m.PathPrefix, how)
	case m.PathPrefix != "" || m.PathRegex == "":
		return ""
	}
	expression := m.PathRegex
	if m.CaseInsensitive {
		expression = "(?i:" + expression + ")"
	}
	return refusesRegex("the path", r.Path, expression)
}

// lowerASCII is how Envoy compares in any case: letters beyond ASCII stay.
func lowerASCII(s string) string {
	return strings.Map(func(c rune) rune {
		if 'A' <= c && c <= 'Z' {
			return c + 'a' - 'A'
		}
		return c
	}, s)
}

func (r Request) refusesHeader(h *chain.HeaderMatch) string {
	values := r.header(h.Name)
	what, present := "the header "+h.Name, len(values) > 0
	text := matcherOf(h.Exact, h.Prefix, h.Suffix, h.Regex)
	switch {
	case text == nil && present == h.Invert && present:
		return what + " is present"
	case text == nil && present == h.Invert:
		return what + " is missing"
	case text == nil:
		return ""
	case !present:
		return what + " is missing"
	}
	reason := ""
	for _, value := range values {
		if reason = text(what, value); reason == "" {
			break
		}
	}
	switch {
	case h.Invert && reason == "":
		return fmt.Sprintf("%s is %s, which the route excludes", what, quoted(values))
	case h.Invert:
		return ""
	case reason != "" && len(values) > 1:
		reason += ", and neither do its other values match"
	}
	return reason
}

func quoted(values []string) string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = strconv.Quote(v)
	}
	return strings.Join(out, " and ")
}

func (r Request) refusesQuery(q *chain.QueryParamMatch) string {
	what := "the query parameter " + q.Name
	for _, p := range r.Query {
		if p.Name != q.Name {
			continue
		}
		if text := matcherOf(q.Exact, "", "", q.Regex); text != nil {
			return text(what, p.Value)
		}
		return ""
	}
	return what + " is missing"
}

func (r Request) refusesMethod(methods []string) string {
	for _, m := range methods {
		if m == r.Method {
			return ""
		}
	}
	if len(methods) == 0 {
		return ""
	}
	return fmt.Sprintf("the method %s is not %s", r.Method, strings.Join(methods, " or "))
}

// matcherOf returns what says why a text does not match, nil where nothing is asked of it. The first form that
// is set counts, in the order of the translation to Envoy.
func matcherOf(exact, prefix, suffix, regex string) func(what, value string) string {
	simple := func(words, wanted string, ok func(value, wanted string) bool) func(what, value string) string {
		return func(what, value string) string {
			if ok(value, wanted) {
				return ""
			}
			return fmt.Sprintf("%s is %q, which %s %q", what, value, words, wanted)
		}
	}
	switch {
	case exact != "":
		return simple("is not", exact, func(value, wanted string) bool { return value == wanted })
	case prefix != "":
		return simple("does not begin with", prefix, strings.HasPrefix)
	case suffix != "":
		return simple("does not end with", suffix, strings.HasSuffix)
	case regex != "":
		return func(what, value string) string { return refusesRegex(what, value, regex) }
	}
	return nil
}

// refusesRegex matches all of a text, as Envoy does.
func refusesRegex(what, value, expression string) string {
	re, err := regexp.Compile(`\A(?:` + expression + `)\z`)
	switch {
	case err != nil:
		return fmt.Sprintf("%s cannot be matched: %q is no regular expression, and Envoy refuses these routes", what, expression)
	case !re.MatchString(value):
		return fmt.Sprintf("%s %q is not matched in full by %s", what, value, expression)
	}
	return ""
}

// header returns the values of a header. The names of pseudo headers, such as :authority, are those of HTTP/2, and
// host is one of them.
func (r Request) header(name string) []string {
	name = lowerASCII(name)
	switch name {
	case ":method":
		return []string{r.Method}
	case ":path":
		return []string{r.target()}
	case ":authority", "host":
		return []string{r.Host}
	}
	var values []string
	for _, h := range r.Headers {
		if lowerASCII(h.Name) == name {
			values = append(values, h.Value)
		}
	}
	return values
}

// Joined returns the request with each header once, its values joined by commas: so Envoy before 1.39 matches
// headers that repeat.
func (r Request) Joined() Request {
	var list []Pair
	for _, h := range r.Headers {
		at := slices.IndexFunc(list, func(p Pair) bool { return lowerASCII(p.Name) == lowerASCII(h.Name) })
		if at < 0 {
			list = append(list, h)
			continue
		}
		list[at].Value += "," + h.Value
	}
	r.Headers = list
	return r
}

// target is the path with the query.
func (r Request) target() string {
	var b strings.Builder
	b.WriteString(r.Path)
	for i, p := range r.Query {
		sign := "&"
		if i == 0 {
			sign = "?"
		}
		b.WriteString(sign + p.Name)
		if p.Value != "" {
			b.WriteString("=" + p.Value)
		}
	}
	return b.String()
}

// String returns the request in one line, as it would be asked for.
func (r Request) String() string {
	out := r.Method + " " + r.Host + r.target()
	for _, h := range r.Headers {
		out += ", " + h.Name + ": " + h.Value
	}
	return out
}

// Arrives returns the path that the instance sees: the route may replace what it matched by, as Envoy does.
func (r Request) Arrives(route *chain.ServiceRoute) string {
	if route == nil || route.Destination == nil || route.Destination.PrefixRewrite == "" {
		return r.Path
	}
	to := route.Destination.PrefixRewrite
	prefix := "/"
	if route.Match != nil && route.Match.HTTP != nil {
		switch m := route.Match.HTTP; {
		case m.PathExact != "" || m.PathPrefix == "" && m.PathRegex != "":
			return to
		case m.PathPrefix != "":
			prefix = m.PathPrefix
		}
	}
	rest := r.Path[min(len(prefix), len(r.Path)):]
	if to == "/" { // the slash that follows goes along: else /shop/cart would become //cart
		rest = strings.TrimPrefix(rest, "/")
	}
	return to + rest
}
