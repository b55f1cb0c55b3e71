package facts

import (
	"hash/maphash"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// shares keeps one copy of what instances have in common: those of a service nearly all they say of it,
// those on a node what they say of the node, and all of them their words. Decoded, each has a copy of its
// own, which is half of what it takes. Facts do not change, so nobody can tell.
type shares struct {
	texts     shelf[string, string]
	lists     shelf[string, []string]
	tables    shelf[string, map[string]string]
	upstreams shelf[uint64, []Upstream]
	seed      maphash.Seed
}

// The rooms bound what is kept of facts that are gone: a few megabytes.
func newShares() *shares {
	return &shares{
		texts:     shelf[string, string]{room: 1 << 15},
		lists:     shelf[string, []string]{room: 1 << 12},
		tables:    shelf[string, map[string]string]{room: 1 << 13},
		upstreams: shelf[uint64, []Upstream]{room: 1 << 7},
		seed:      maphash.MakeSeed(),
	}
}

// longText is the length above which texts and what they make up are not worth the room.
const longText = 256

// instance returns the instance with all that is already kept replaced by what is kept.
func (s *shares) instance(in *Instance) *Instance {
	c := *in
	s.node(&c.Node)
	s.service(&c.Service)
	c.Checks = slices.Clone(in.Checks)
	for i := range c.Checks {
		s.check(&c.Checks[i])
	}
	return &c
}

func (s *shares) node(n *Node) {
	n.ID, n.Node, n.Address, n.Datacenter = s.text(n.ID), s.text(n.Node), s.text(n.Address), s.text(n.Datacenter)
	n.TaggedAddresses, n.Meta = s.table(n.TaggedAddresses), s.table(n.Meta)
}

func (s *shares) service(v *Service) {
	v.Kind, v.ID, v.Service, v.Address = s.text(v.Kind), s.text(v.ID), s.text(v.Service), s.text(v.Address)
	v.Tags, v.Meta = s.list(v.Tags), s.table(v.Meta)
	if len(v.TaggedAddresses) > 0 {
		tagged := make(map[string]Address, len(v.TaggedAddresses))
		for tag, a := range v.TaggedAddresses {
			tagged[s.text(tag)] = Address{Address: s.text(a.Address), Port: a.Port}
		}
		v.TaggedAddresses = tagged
	}
	if v.Proxy != nil {
		p := *v.Proxy
		p.DestinationServiceName, p.DestinationServiceID = s.text(p.DestinationServiceName), s.text(p.DestinationServiceID)
		p.LocalServiceAddress, p.Mode = s.text(p.LocalServiceAddress), s.text(p.Mode)
		p.Upstreams = s.upstreamList(p.Upstreams)
		v.Proxy = &p
	}
}

func (s *shares) check(c *Check) {
	c.Node, c.CheckID, c.Name, c.Status = s.text(c.Node), s.text(c.CheckID), s.text(c.Name), CheckStatus(s.text(string(c.Status)))
	c.ServiceID, c.ServiceName, c.Type = s.text(c.ServiceID), s.text(c.ServiceName), s.text(c.Type)
	c.Notes, c.ServiceTags = s.text(c.Notes), s.list(c.ServiceTags)
}

func (s *shares) text(t string) string {
	if t == "" || len(t) > longText {
		return t
	}
	kept, ok := s.texts.find(t)
	if !ok {
		s.texts.put(t, t)
		return t
	}
	return kept
}

func (s *shares) list(list []string) []string {
	key := strings.Join(list, "\x00")
	if len(list) == 0 || len(key) > longText {
		return list
	}
	if kept, ok := s.lists.find(key); ok && slices.Equal(kept, list) {
		return kept
	}
	c := make([]string, len(list))
	for i, t := range list {
		c[i] = s.text(t)
	}
	s.lists.put(key, c)
	return c
}

func (s *shares) table(m map[string]string) map[string]string {
	if len(m) == 0 {
		return m
	}
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(m)) {
		b.WriteString(k + "\x00" + m[k] + "\x00")
	}
	key := b.String()
	if len(key) > longText {
		return m
	}
	if kept, ok := s.tables.find(key); ok && maps.Equal(kept, m) {
		return kept
	}
	c := make(map[string]string, len(m))
	for k, v := range m {
		c[s.text(k)] = s.text(v)
	}
	s.tables.put(key, c)
	return c
}

// upstreamList shares equal lists, and within a list equal configurations, as the central configuration
// gives them to all upstreams.
func (s *shares) upstreamList(list []Upstream) []Upstream {
	if len(list) == 0 {
		return list
	}
	var h maphash.Hash
	h.SetSeed(s.seed)
	for i := range list {
		maphash.WriteComparable(&h, list[i].DestinationName)
		maphash.WriteComparable(&h, list[i].LocalBindPort)
	}
	key := h.Sum64()
	if kept, ok := s.upstreams.find(key); ok && reflect.DeepEqual(kept, list) {
		return kept
	}
	c := append(make([]Upstream, 0, len(list)), list...)
	for i := range c {
		u := &c[i]
		u.DestinationType, u.DestinationName, u.Datacenter = s.text(u.DestinationType), s.text(u.DestinationName), s.text(u.Datacenter)
		u.LocalBindAddress = s.text(u.LocalBindAddress)
		if i > 0 && reflect.DeepEqual(u.Config, c[i-1].Config) {
			u.Config = c[i-1].Config
		}
	}
	s.upstreams.put(key, c)
	return c
}

// shelf keeps values by key: of those used lately up to twice its room. What drops out of it is shared
// less, and nothing worse.
type shelf[K comparable, V any] struct {
	room       int
	young, old map[K]V
}

func (s *shelf[K, V]) find(key K) (V, bool) {
	if v, ok := s.young[key]; ok {
		return v, true
	}
	v, ok := s.old[key]
	if ok {
		s.put(key, v)
	}
	return v, ok
}

func (s *shelf[K, V]) put(key K, v V) {
	if s.young == nil || len(s.young) >= s.room {
		s.young, s.old = map[K]V{}, s.young
	}
	s.young[key] = v
}
