package xds

import (
	"regexp"
	"strings"

	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

const (
	// maxMatchers bounds the matchers of a request, and maxMatcher the text of each.
	maxMatchers = 100
	maxMatcher  = 1024
)

// nodeMatcher returns what says whether a client is asked about, by its ID: without matchers all are, else
// those that one of them matches.
func nodeMatcher(list []*matcherv3.NodeMatcher) (func(id string) bool, error) {
	if len(list) == 0 {
		return func(string) bool { return true }, nil
	}
	if len(list) > maxMatchers {
		return nil, refuse("node_matchers has %d matchers, more than the %d allowed", len(list), maxMatchers)
	}
	var any []func(string) bool
	for _, m := range list {
		if len(m.GetNodeMetadatas()) > 0 {
			return nil, refuse("node_matchers: the metadata of nodes is not kept: match them by node_id")
		}
		match, err := stringMatcher(m.GetNodeId())
		if err != nil {
			return nil, err
		}
		any = append(any, match)
	}
	return func(id string) bool {
		for _, match := range any {
			if match(id) {
				return true
			}
		}
		return false
	}, nil
}

// stringMatcher returns a matcher of texts; an unset one matches all.
func stringMatcher(m *matcherv3.StringMatcher) (func(string) bool, error) {
	fold := func(s string) string { return s }
	if m.GetIgnoreCase() {
		fold = strings.ToLower
	}
	with := func(test func(s, want string) bool, want string) (func(string) bool, error) {
		if len(want) > maxMatcher {
			return nil, refuse("node_matchers: a node_id has %d bytes, more than the %d allowed", len(want), maxMatcher)
		}
		want = fold(want)
		return func(s string) bool { return test(fold(s), want) }, nil
	}
	switch p := m.GetMatchPattern().(type) {
	case nil:
		return func(string) bool { return true }, nil
	case *matcherv3.StringMatcher_Exact:
		return with(func(s, want string) bool { return s == want }, p.Exact)
	case *matcherv3.StringMatcher_Prefix:
		return with(strings.HasPrefix, p.Prefix)
	case *matcherv3.StringMatcher_Suffix:
		return with(strings.HasSuffix, p.Suffix)
	case *matcherv3.StringMatcher_Contains:
		return with(strings.Contains, p.Contains)
	case *matcherv3.StringMatcher_SafeRegex:
		return regexMatcher(p.SafeRegex.GetRegex())
	}
	return nil, refuse("node_matchers: match node_id by exact, prefix, suffix, contains or safe_regex")
}

// regexMatcher matches whole texts, as Envoy does; the case counts.
func regexMatcher(text string) (func(string) bool, error) {
	if len(text) > maxMatcher {
		return nil, refuse("node_matchers: a safe_regex has %d bytes, more than the %d allowed", len(text), maxMatcher)
	}
	re, err := regexp.Compile(`\A(?:` + text + `)\z`)
	if err != nil {
		return nil, refuse("node_matchers: safe_regex %q: %v", text, err)
	}
	return re.MatchString, nil
}
