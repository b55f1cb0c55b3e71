package destination

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/catenary-mesh/catenary/chain"
)

// ChainProblem is a chain that some stream asks about and that does not compile.
type ChainProblem struct {
	Service, Datacenter string
	// LastGood holds when what did compile last is still served.
	LastGood bool
	Problems []chain.Problem
}

// broken counts the subjects whose chain does not compile, by whose it is and why.
type broken map[brokenChain]int

type brokenChain struct{ service, datacenter, text string }

// brokenIn is the broken chain of an answer; false when it has none.
func brokenIn(m *made) (brokenChain, bool) {
	for i := range m.Problems {
		if m.Problems[i].IsError() {
			return brokenChain{m.about.Service, m.about.Datacenter, m.Problems[i].String()}, true
		}
	}
	return brokenChain{}, false
}

// tell logs a chain once when it no longer compiles, and when it does again; now is nil when nobody asks any more.
func (h *hub) tell(before *answer, now *made) {
	old, was := brokenIn(&before.made)
	current, is := brokenChain{}, false
	if now != nil {
		current, is = brokenIn(now)
	}
	if was == is && old == current {
		return
	}
	if is {
		if h.broken[current]++; h.broken[current] == 1 {
			h.cfg.Logger.Warn("a discovery chain does not compile", "service", current.service, "datacenter", current.datacenter,
				"last_good_in_force", now.Chain != nil, "problem", current.text)
		}
	}
	if was {
		if h.broken[old]--; h.broken[old] == 0 {
			delete(h.broken, old)
			h.cfg.Logger.Info("a discovery chain compiles again, or is not used any more", "service", old.service, "datacenter", old.datacenter)
		}
	}
	h.cfg.Metrics.LinkerdProblems(len(h.broken))
}

// Problems returns what is wrong with the chains that streams ask about, by service and datacenter.
func (s *Server) Problems() []ChainProblem {
	type key struct{ service, datacenter string }
	found := map[key]ChainProblem{}
	s.hub.mu.Lock()
	for _, subject := range s.hub.subjects {
		a := subject.answer.Load()
		if _, is := brokenIn(&a.made); !is {
			continue
		}
		k := key{a.about.Service, a.about.Datacenter}
		found[k] = ChainProblem{Service: k.service, Datacenter: k.datacenter, LastGood: found[k].LastGood || a.Chain != nil, Problems: a.Problems}
	}
	s.hub.mu.Unlock()
	return slices.SortedFunc(maps.Values(found), func(a, b ChainProblem) int {
		return cmp.Or(strings.Compare(a.Service, b.Service), strings.Compare(a.Datacenter, b.Datacenter))
	})
}
