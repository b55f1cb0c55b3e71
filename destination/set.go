package destination

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"sync"
)

// Endpoint is an address behind a name. It is comparable.
type Endpoint struct {
	Addr netip.AddrPort
	// Weight is Consul's, 1 to 128.
	Weight uint32
	// Instance and Node are the ID of the instance and the name of its node.
	Instance, Node string
	// Region and Zone are empty where the instance has no locality.
	Region, Zone string
	// Identity is the SPIFFE ID that the other end must have, and ServerName what to ask it for. Both are
	// empty where the endpoint is dialled in plaintext.
	Identity, ServerName string
	// Opaque endpoints take a stream of bytes.
	Opaque bool
}

// Labels are what all endpoints of a set have in common.
type Labels struct{ Service, Subset, Datacenter string }

// Set is the endpoints behind a name, in the order of their addresses, each address once.
type Set struct {
	Labels    Labels
	Endpoints []Endpoint

	found sync.Once
	at    whereabouts
}

// whereabouts is where the endpoints of a set are.
type whereabouts struct {
	nodes map[string]Origin          // by the name of the node in lower case
	zones map[string]map[string]bool // the regions that a zone is of
}

// where returns where the endpoints are; it is found out when somebody wants to know.
func (s *Set) where() whereabouts {
	if s == nil {
		return whereabouts{}
	}
	s.found.Do(func() {
		s.at = whereabouts{map[string]Origin{}, map[string]map[string]bool{}}
		for i := range s.Endpoints {
			ep := &s.Endpoints[i]
			if ep.Zone == "" {
				continue
			}
			if node := strings.ToLower(ep.Node); s.at.nodes[node] == (Origin{}) && node != "" {
				s.at.nodes[node] = Origin{Region: ep.Region, Zone: ep.Zone}
			}
			if s.at.zones[ep.Zone] == nil {
				s.at.zones[ep.Zone] = map[string]bool{}
			}
			s.at.zones[ep.Zone][ep.Region] = true
		}
	})
	return s.at
}

// NewSet returns the set of the endpoints. Of two with one address it has the one that has an identity: what
// could be reached with one is never dialled in plaintext.
func NewSet(labels Labels, endpoints []Endpoint) *Set { return newSet(labels, slices.Clone(endpoints)) }

// newSet is NewSet of a list that nobody else has.
func newSet(labels Labels, list []Endpoint) *Set {
	for i := range list {
		list[i].Addr = netip.AddrPortFrom(list[i].Addr.Addr().Unmap(), list[i].Addr.Port())
	}
	slices.SortFunc(list, func(a, b Endpoint) int {
		return cmp.Or(
			a.Addr.Compare(b.Addr), -cmp.Compare(len(a.Identity), len(b.Identity)), cmp.Compare(a.Identity, b.Identity),
			-cmp.Compare(a.Weight, b.Weight), cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Node, b.Node),
		)
	})
	list = slices.CompactFunc(list, func(a, b Endpoint) bool { return a.Addr == b.Addr })
	return &Set{Labels: labels, Endpoints: slices.Clip(list)}
}

// Equal reports whether two sets have the same content. A nil set has none.
func (s *Set) Equal(other *Set) bool {
	if s == nil || other == nil {
		return s == other
	}
	return s.Labels == other.Labels && slices.Equal(s.Endpoints, other.Endpoints)
}
