package oracle_test

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// words finds where a snake_case key has an underscore.
var words = regexp.MustCompile(`([a-z0-9])([A-Z])`)

// respelled writes an entry in another way that means the same: keys in snake_case or in other cases,
// numbers as text, a list of one as its element.
func (g *generator) respelled(doc object) object {
	out := object{}
	for _, key := range slices.Sorted(maps.Keys(doc)) {
		value := doc[key]
		switch key {
		case "Config", "Meta", "Arguments", "Add", "Set":
			out[key] = value // the keys within are the user's own
		case "Subsets", "Failover":
			named := object{}
			for _, name := range slices.Sorted(maps.Keys(value.(object))) {
				named[name] = g.respell(value.(object)[name])
			}
			out[g.key(key)] = named
		default:
			out[g.key(key)] = g.respell(value)
		}
	}
	return out
}

func (g *generator) respell(value any) any {
	switch v := value.(type) {
	case object:
		return g.respelled(v)
	case []object:
		var list []any
		for _, o := range v {
			list = append(list, g.respelled(o))
		}
		if len(list) == 1 && g.odds(0.5) {
			return list[0]
		}
		return list
	case []string:
		if len(v) == 1 && g.odds(0.3) {
			return v[0]
		}
	case int:
		if g.odds(0.3) {
			return strconv.Itoa(v)
		}
	case float64:
		if g.odds(0.3) {
			return strconv.FormatFloat(v, 'f', -1, 64)
		}
	}
	return value
}

func (g *generator) key(key string) string {
	snake := strings.ToLower(words.ReplaceAllString(key, "${1}_$2"))
	return pick(g, key, strings.ToLower(key), snake, snake)
}
