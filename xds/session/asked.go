package session

import (
	"maps"
	"slices"
)

// Asked returns the names of a type that the client asks for, sorted; a wildcard is none of them.
func (s *Session) Asked(t *Type) []string {
	return slices.Sorted(maps.Keys(s.subs[t.rank].named))
}
