package chain

import (
	"maps"
	"slices"
)

// merged is the definition of a leg reached through another one. Of two request modifiers for one
// header the inner leg's wins, as it is nearer to the instance; of two response modifiers the outer's.
func merged(outer, inner *ServiceSplit) *ServiceSplit {
	request := mergeModifiers(outer.RequestHeaders, inner.RequestHeaders)
	response := mergeModifiers(inner.ResponseHeaders, outer.ResponseHeaders)
	if request == inner.RequestHeaders && response == inner.ResponseHeaders {
		return inner
	}
	d := *inner
	d.RequestHeaders, d.ResponseHeaders = request, response
	return &d
}

// mergeModifiers joins two sets of modifiers; where both say something of a header, over wins.
func mergeModifiers(base, over *HeaderModifiers) *HeaderModifiers {
	switch {
	case base.isEmpty():
		return over
	case over.isEmpty():
		return base
	}
	return &HeaderModifiers{
		Add:    mergeMaps(base.Add, over.Add),
		Set:    mergeMaps(base.Set, over.Set),
		Remove: union(base.Remove, over.Remove),
	}
}

func mergeMaps(base, over map[string]string) map[string]string {
	if len(over) == 0 {
		return base
	}
	out := make(map[string]string, len(base)+len(over))
	maps.Copy(out, base)
	maps.Copy(out, over)
	return out
}

// union lists what is in a, then what is in b only. Repetitions within one list stay, as in Consul.
func union(a, b []string) []string {
	known := make(map[string]bool, len(a))
	for _, s := range a {
		known[s] = true
	}
	out := slices.Clone(a)
	for _, s := range b {
		if !known[s] {
			out = append(out, s)
		}
	}
	return out
}

func (m *HeaderModifiers) isEmpty() bool { return m.count() == 0 }

func (m *HeaderModifiers) count() int {
	if m == nil {
		return 0
	}
	return len(m.Add) + len(m.Set) + len(m.Remove)
}
