package destination

import (
	"encoding/binary"
	"maps"
	"net/netip"
	"slices"

	"google.golang.org/protobuf/proto"

	pb "github.com/catenary-mesh/catenary/internal/proto/destination"
)

// Seen is what a client has of a name, by the rules that the protocol sets for clients: messages come in any order
// and may say what is known, and what was heard on a stream before stays until a new one is heard on. The zero value
// has heard nothing.
type Seen struct {
	// Known is false until the first message. Exists is false of a name that does not exist.
	Known, Exists bool
	Endpoints     map[netip.AddrPort]*pb.WeightedAddr
	// Labels are those of the last set that had endpoints.
	Labels map[string]string

	heard bool // on this stream
}

// Change is what a message changed: an endpoint that came, became another, or went, which has no Now.
type Change struct {
	Addr        netip.AddrPort
	Before, Now *pb.WeightedAddr
}

// Subscribed says that a new stream begins. What is known stays until it says something.
func (s *Seen) Subscribed() { s.heard = false }

// Apply takes in a message, and returns what it changed in the order of addresses.
func (s *Seen) Apply(u *pb.Update) []Change {
	before := s.Endpoints
	s.Endpoints = maps.Clone(before)
	if s.Endpoints == nil || !s.heard {
		s.Endpoints = map[netip.AddrPort]*pb.WeightedAddr{}
	}
	switch {
	case u.GetAdd() != nil:
		s.add(u.GetAdd())
	case u.GetRemove() != nil:
		for _, a := range u.GetRemove().GetAddrs() {
			if at, ok := AddrPort(a); ok {
				delete(s.Endpoints, at)
			}
		}
		s.Exists = true
	case u.GetNoEndpoints() != nil:
		clear(s.Endpoints)
		s.Exists = u.GetNoEndpoints().GetExists()
	default: // a message of a later version says nothing
		s.Endpoints = before
		return nil
	}
	s.Known, s.heard = true, true
	return changes(before, s.Endpoints)
}

// add takes in a set. One without endpoints says nothing, not even that the name exists.
func (s *Seen) add(set *pb.WeightedAddrSet) {
	if len(set.GetAddrs()) == 0 {
		return
	}
	s.Exists, s.Labels = true, set.GetMetricLabels()
	for _, w := range set.GetAddrs() {
		if at, ok := AddrPort(w.GetAddr()); ok {
			s.Endpoints[at] = w
		}
	}
}

func changes(before, now map[netip.AddrPort]*pb.WeightedAddr) []Change {
	var list []Change
	for at, w := range now {
		if old := before[at]; old == nil || !proto.Equal(old, w) {
			list = append(list, Change{at, old, w})
		}
	}
	for at, w := range before {
		if now[at] == nil {
			list = append(list, Change{at, w, nil})
		}
	}
	slices.SortFunc(list, func(a, b Change) int { return a.Addr.Compare(b.Addr) })
	return list
}

// AddrPort is an address as messages have it; ok is false of one that is none.
func AddrPort(a *pb.TcpAddress) (at netip.AddrPort, ok bool) {
	if a.GetPort() > 65535 {
		return netip.AddrPort{}, false
	}
	port := uint16(a.GetPort())
	switch ip := a.GetIp().GetIp().(type) {
	case *pb.IPAddress_Ipv4:
		var octets [4]byte
		binary.BigEndian.PutUint32(octets[:], ip.Ipv4)
		return netip.AddrPortFrom(netip.AddrFrom4(octets), port), true
	case *pb.IPAddress_Ipv6:
		var octets [16]byte
		binary.BigEndian.PutUint64(octets[:8], ip.Ipv6.GetFirst())
		binary.BigEndian.PutUint64(octets[8:], ip.Ipv6.GetLast())
		return netip.AddrPortFrom(netip.AddrFrom16(octets), port), true
	}
	return netip.AddrPort{}, false
}
