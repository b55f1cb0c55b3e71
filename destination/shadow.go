package destination

import (
	"regexp"
	"slices"
	"strings"

	"github.com/catenary-mesh/catenary/chain"
)

// shadows reports whether a request could match one of the hidden routes and the other too. Where that cannot be
// told it could.
func shadows(hidden []*chain.HTTPMatch, m *chain.HTTPMatch) bool {
	return slices.ContainsFunc(hidden, func(h *chain.HTTPMatch) bool {
		return methodsMeet(h.Methods, m.Methods) && pathsMeet(h, m)
	})
}

func methodsMeet(a, b []string) bool {
	return len(a) == 0 || len(b) == 0 || slices.ContainsFunc(a, func(m string) bool { return slices.Contains(b, m) })
}

func pathsMeet(a, b *chain.HTTPMatch) bool {
	switch {
	case a.PathRegex != "" && b.PathRegex != "":
		return true
	case a.PathRegex != "":
		return regexMeets(a, b)
	case b.PathRegex != "":
		return regexMeets(b, a)
	case a.PathExact != "" && b.PathExact != "":
		return fold(a, b, a.PathExact) == fold(a, b, b.PathExact)
	case a.PathExact != "":
		return strings.HasPrefix(fold(a, b, a.PathExact), fold(a, b, b.PathPrefix))
	case b.PathExact != "":
		return strings.HasPrefix(fold(a, b, b.PathExact), fold(a, b, a.PathPrefix))
	}
	one, other := fold(a, b, a.PathPrefix), fold(a, b, b.PathPrefix)
	return strings.HasPrefix(one, other) || strings.HasPrefix(other, one)
}

// fold is a path as it is compared where one of two matches does not mind case.
func fold(a, b *chain.HTTPMatch, path string) string {
	if a.CaseInsensitive || b.CaseInsensitive {
		return strings.ToLower(path)
	}
	return path
}

// regexMeets looks whether an expression matches an exact path; of prefixes that is not told.
func regexMeets(r, other *chain.HTTPMatch) bool {
	if other.PathExact == "" {
		return true
	}
	flags := ""
	if r.CaseInsensitive || other.CaseInsensitive {
		flags = "(?i)"
	}
	re, err := regexp.Compile(flags + "^(?:" + r.PathRegex + ")$")
	return err != nil || re.MatchString(other.PathExact)
}
