package envoy

import (
	"regexp"
	"strings"
	"unicode"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/catenary-mesh/catenary/chain"
)

// headerOf translates the one matcher of a header.
func headerOf(h chain.IntentionHeader) *routev3.HeaderMatcher {
	out := &routev3.HeaderMatcher{Name: h.Name, InvertMatch: h.Invert}
	m := &matcherv3.StringMatcher{IgnoreCase: h.IgnoreCase}
	switch {
	case h.Exact != "":
		m.MatchPattern = &matcherv3.StringMatcher_Exact{Exact: h.Exact}
	case h.Regex != "":
		m = pattern(h.Regex)
	case h.Prefix != "":
		m.MatchPattern = &matcherv3.StringMatcher_Prefix{Prefix: h.Prefix}
	case h.Suffix != "":
		m.MatchPattern = &matcherv3.StringMatcher_Suffix{Suffix: h.Suffix}
	case h.Contains != "":
		m.MatchPattern = &matcherv3.StringMatcher_Contains{Contains: h.Contains}
	default:
		out.HeaderMatchSpecifier = &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}
		return out
	}
	out.HeaderMatchSpecifier = text(m)
	return out
}

func text(m *matcherv3.StringMatcher) *routev3.HeaderMatcher_StringMatch {
	return &routev3.HeaderMatcher_StringMatch{StringMatch: m}
}

// anywhere has a rule that denies by a header hold for each of its values. gRPC, and Envoy before 1.39, judge the
// values of a header that repeats as one text, joined by commas: there who adds another value would not be denied.
// An inverted matcher denies such a text as it is.
func anywhere(h chain.IntentionHeader, rule *rbacv3.Permission) *rbacv3.Permission {
	joined := joined(h)
	if joined == "" || h.Invert {
		return rule
	}
	among := headerRule(&routev3.HeaderMatcher{Name: h.Name, HeaderMatchSpecifier: text(pattern(joined))})
	return &rbacv3.Permission{Rule: &rbacv3.Permission_OrRules{OrRules: &rbacv3.Permission_Set{
		Rules: []*rbacv3.Permission{rule, among},
	}}}
}

// joined is a pattern of values that are joined, of which one matches; empty where the matcher finds it anyway.
func joined(h chain.IntentionHeader) string {
	const before, after = `(.*,)?[ \t]*`, `[ \t]*(,.*)?`
	switch {
	case h.Exact != "":
		return before + literal(h.Exact, h.IgnoreCase) + after
	case h.Regex != "":
		return before + group(h.Regex) + after
	case h.Prefix != "":
		return before + literal(h.Prefix, h.IgnoreCase) + ".*"
	case h.Suffix != "":
		return ".*" + literal(h.Suffix, h.IgnoreCase) + after
	}
	return ""
}

// literal is a pattern of a text. Not all libraries know a flag for any case, which is that of ASCII.
func literal(s string, ignoreCase bool) string {
	if !ignoreCase {
		return regexp.QuoteMeta(s)
	}
	var out strings.Builder
	for _, r := range s {
		if r < unicode.MaxASCII && unicode.IsLetter(r) {
			out.WriteString("[" + string(unicode.ToLower(r)) + string(unicode.ToUpper(r)) + "]")
			continue
		}
		out.WriteString(regexp.QuoteMeta(string(r)))
	}
	return out.String()
}

// group is a regular expression that can be put beside others. One may end in a quotation that nothing ends.
func group(regex string) string {
	if out := "(?:" + regex + ")"; !strings.Contains(regex, `\Q`) || compiles(out) {
		return out
	}
	return "(?:" + regex + `\E)`
}

func compiles(regex string) bool {
	_, err := regexp.Compile(regex)
	return err == nil
}
