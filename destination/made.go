package destination

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// made is what an answer is made of.
type made struct {
	Resolution
	about   Name // whose the chain is
	profile Profile
	// conflict says why the question has no answer that is right.
	conflict string
}

// make makes the answer to a question.
func (h *hub) make(s *subject, view facts.View) made {
	q := s.question
	switch {
	case q.addr.IsValid():
		return h.byAddress(s, view)
	case q.profile:
		return described(q.name, h.cfg.Place.Describe(view, q.name, q.reader, s.chain))
	}
	return made{about: q.name, Resolution: h.cfg.Place.Resolve(view, q.name, q.reader, s.chain)}
}

func described(about Name, d Description) made {
	return made{about: about, Resolution: d.Resolution, profile: d.Profile}
}

// byAddress is the profile of the service that has an address for its virtual IP, else of the instance that
// listens there, else of nothing.
func (h *hub) byAddress(s *subject, view facts.View) made {
	q := s.question
	found := h.addresses.lookup(s)
	if found.pending != "" {
		return made{Resolution: Resolution{Pending: found.pending, Chain: s.chain}}
	}
	if len(found.owners) > 1 {
		conflict := fmt.Sprintf("%s is the virtual IP of several services", q.addr.Addr())
		if q.reader == "" {
			conflict += fmt.Sprintf(": %q", found.owners) // else it may not be meant to know of them
		}
		return made{Resolution: Resolution{State: NoEndpoints}, conflict: conflict}
	}
	if len(found.owners) == 1 {
		name := Name{Service: found.owners[0], Datacenter: h.cfg.Place.Datacenter, Port: q.addr.Port()}
		return described(name, h.cfg.Place.Describe(view, name, q.reader, s.chain))
	}
	if found.instance == nil {
		return made{Resolution: Resolution{State: NoService}, profile: DefaultProfile()}
	}
	return described(Name{}, h.cfg.Place.DescribeInstance(view, found.instance, q.addr, q.reader))
}

// same reports whether streams, and who looks at them, would be told the same.
func (a *answer) same(m made) bool {
	return a.State == m.State && a.Pending == m.Pending && a.Denied == m.Denied && a.conflict == m.conflict &&
		a.Set.Equal(m.Set) && proto.Equal(a.profile.DestinationProfile, m.profile.DestinationProfile) &&
		slices.EqualFunc(a.Problems, m.Problems, func(x, y chain.Problem) bool { return x.String() == y.String() }) &&
		slices.Equal(a.Notes, m.Notes) && slices.Equal(a.profile.Notes, m.profile.Notes)
}
