package entry

import (
	"reflect"
	"strings"
	"unicode"

	"github.com/catenary-mesh/catenary/chain"
)

// target is a field of a struct; one without an index is accepted and dropped.
type target struct {
	name  string
	index []int
	// bare is a field without an alias in snake_case.
	bare bool
}

// spelled reports whether a key is the field's name, or its alias in snake_case if Consul has given it
// one, in letters of any case. Consul takes no other underscores.
func (t target) spelled(key string) bool {
	if strings.EqualFold(key, strings.ReplaceAll(t.name, "_", "")) {
		return true
	}
	return !t.bare && strings.EqualFold(key, snake(t.name))
}

// isBare reports whether Consul 1.22.5 refuses the alias of a field.
func isBare(of reflect.Type, name string) bool {
	switch name {
	case "ConsulVersion", "EnvoyVersion", "MaxRequestHeadersKB":
		return true
	case "SamenessGroup":
		return of != reflect.TypeFor[chain.SourceIntention]()
	}
	return false
}

// fieldsOf lists the keys that a struct takes, without case and underscores.
func fieldsOf(t reflect.Type) map[string]target {
	fields := map[string]target{}
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous || !f.IsExported() || f.Name == "Origin" {
			continue
		}
		fields[plainKey(f.Name)] = target{name: f.Name, index: f.Index, bare: isBare(t, f.Name)}
	}
	if dropping, ok := reflect.Zero(t).Interface().(interface{ dropped() []string }); ok {
		for _, key := range dropping.dropped() {
			fields[plainKey(key)] = target{name: key}
		}
	}
	return fields
}

func plainKey(key string) string { return strings.ToLower(strings.ReplaceAll(key, "_", "")) }

// snake writes a name in snake_case: EnvoyListenerJSON is envoy_listener_json, and
// EnforcingConsecutive5xx enforcing_consecutive_5xx.
func snake(name string) string {
	runes := []rune(name)
	var b strings.Builder
	for i, r := range runes {
		if i > 0 && startsWord(runes, i) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// startsWord reports whether a word begins at a letter that is not the first.
func startsWord(runes []rune, i int) bool {
	before, r := runes[i-1], runes[i]
	switch {
	case before == '_':
		return false
	case unicode.IsDigit(r):
		return !unicode.IsDigit(before) && unicode.IsUpper(runes[0])
	case !unicode.IsUpper(r):
		return false
	case !unicode.IsUpper(before):
		return true
	}
	return i+1 < len(runes) && unicode.IsLower(runes[i+1])
}

// nearest finds the field whose name is at most two edits from a key.
func nearest(key string, fields map[string]target) string {
	best, found := 3, ""
	for name, t := range fields {
		if d := distance(key, name); d < best || d == best && t.name < found && d < 3 {
			best, found = d, t.name
		}
	}
	return found
}

// distance is the number of insertions, deletions and substitutions between two strings.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			substitution := diagonal
			if a[i-1] != b[j-1] {
				substitution++
			}
			diagonal = row[j]
			row[j] = min(row[j]+1, row[j-1]+1, substitution)
		}
	}
	return row[len(b)]
}
