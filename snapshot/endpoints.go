package snapshot

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// Endpoint is an address in a set.
type Endpoint struct {
	Address string
	Port    uint32
	Health  Health
	// Weight is 1 to 128.
	Weight uint32
	// Region and Zone are empty where the instance has no locality.
	Region, Zone string
}

// EndpointSet is the endpoints of a target, in an order that depends on their content only.
type EndpointSet struct {
	Endpoints []Endpoint
	// Skipped says which instances are left out although they match, and why: the first few of them,
	// and how many more there are.
	Skipped []string
}

// Equal reports whether two sets have the same content.
func (s EndpointSet) Equal(other EndpointSet) bool {
	return slices.Equal(s.Endpoints, other.Endpoints) && slices.Equal(s.Skipped, other.Skipped)
}

// maxSkipped is how many instances of a set are told of that are left out.
const maxSkipped = 10

// endpoints selects and judges the instances of the topic.
func (k EndpointSetKey) endpoints(r *facts.Reader) EndpointSet {
	instances, _ := r.Instances(k.Topic)
	if k.Filter != "" {
		keep, err := filter(k.Filter)
		if err != nil {
			return EndpointSet{Skipped: []string{err.Error()}}
		}
		instances = selected(instances, keep)
	}
	if k.Gateways != (facts.Topic{}) {
		return k.throughGateways(r, instances)
	}
	return k.list(instances, k.judge(r))
}

// known reports whether the facts suffice.
func (k EndpointSetKey) known(r *facts.Reader) bool {
	known := r.Known(k.Topic)
	return (k.Gateways == (facts.Topic{}) || r.Known(k.Gateways)) && known && !awaitsVerdicts(r, k.Topic)
}

// throughGateways lists the gateways through which instances are reached. As in Consul they count as healthy
// while any instance is, whatever their own checks say, which weigh them only.
func (k EndpointSetKey) throughGateways(r *facts.Reader, instances []*facts.Instance) EndpointSet {
	behind := Unhealthy
	for _, in := range instances {
		if health, _ := Judge(in, k.OnlyPassing); health == Healthy {
			behind = Healthy
			break
		}
	}
	gateways, _ := r.Instances(k.Gateways)
	return k.list(gateways, func(in *facts.Instance) (Health, uint32) {
		_, weight := Judge(in, false)
		return behind, weight
	})
}

// list is the endpoints of instances, each judged.
func (k EndpointSetKey) list(instances []*facts.Instance, judge func(*facts.Instance) (Health, uint32)) EndpointSet {
	var set EndpointSet
	skipped := 0
	list := make([]Endpoint, 0, len(instances))
	for _, in := range instances {
		address, port := Dial(in, k.WAN)
		if !dialable(address, port) {
			if skipped++; skipped <= maxSkipped {
				set.Skipped = append(set.Skipped, fmt.Sprintf(
					"%s on %s: %q is not an IP address and port that Envoy can dial",
					in.Service.ID, in.Node.Node, fmt.Sprintf("%s:%d", address, port)))
			}
			continue
		}
		e := Endpoint{Address: address, Port: uint32(port)}
		e.Health, e.Weight = judge(in)
		if l := LocalityOf(in); l != nil {
			e.Region, e.Zone = l.Region, l.Zone
		}
		list = append(list, e)
	}
	if skipped > maxSkipped {
		set.Skipped = append(set.Skipped, fmt.Sprintf("%d more", skipped-maxSkipped))
	}
	set.Endpoints = distinct(list)
	return set
}

// selected returns those of the instances that are to be kept.
func selected(instances []*facts.Instance, keep matcher) []*facts.Instance {
	list := make([]*facts.Instance, 0, len(instances))
	for _, in := range instances {
		if keep(in) {
			list = append(list, in)
		}
	}
	return list
}

// dialable reports whether Envoy takes the address. One with a zone, such as fe80::1%eth0, means
// something on one machine only: where there is no such interface, Envoy refuses all of the set.
func dialable(address string, port int) bool {
	ip, err := netip.ParseAddr(address)
	return err == nil && ip.Zone() == "" && port > 0 && port <= 65535
}

// Dial is the address to reach an instance by: its own, else its node's; from another datacenter the
// one tagged wan where there is one.
func Dial(in *facts.Instance, wan bool) (string, int) {
	address, port := in.Service.Address, in.Service.Port
	if wan {
		if tagged, ok := in.Service.TaggedAddresses["wan"]; ok && tagged.Address != "" {
			return tagged.Address, cmp.Or(tagged.Port, port)
		}
	}
	if address != "" {
		return address, port
	}
	if tagged := in.Node.TaggedAddresses["wan"]; wan && tagged != "" {
		return tagged, port
	}
	return in.Node.Address, port
}

// LocalityOf is where an instance runs; nil where that is not known.
func LocalityOf(in *facts.Instance) *facts.Locality {
	if in.Service.Locality != nil {
		return in.Service.Locality
	}
	return in.Node.Locality
}

// distinct orders endpoints and keeps one of each address: clients refuse a set that names an address
// twice. Of several the healthy one wins.
func distinct(list []Endpoint) []Endpoint {
	if len(list) == 0 {
		return nil
	}
	order := make([]rank, len(list))
	for i := range list {
		order[i] = newRank(list[i].Address, i)
	}
	slices.SortFunc(order, func(a, b rank) int {
		switch {
		case a.high != b.high:
			return cmp.Compare(a.high, b.high)
		case a.low != b.low:
			return cmp.Compare(a.low, b.low)
		}
		return compareEndpoints(&list[a.at], &list[b.at])
	})
	out := make([]Endpoint, 0, len(list))
	for _, r := range order {
		e := &list[r.at]
		if n := len(out); n == 0 || out[n-1].Address != e.Address || out[n-1].Port != e.Port {
			out = append(out, *e)
		}
	}
	return out
}

func compareEndpoints(a, b *Endpoint) int {
	return cmp.Or(
		cmp.Compare(a.Address, b.Address), cmp.Compare(a.Port, b.Port),
		cmp.Compare(a.Health, b.Health), cmp.Compare(b.Weight, a.Weight),
		cmp.Compare(a.Region, b.Region), cmp.Compare(a.Zone, b.Zone),
	)
}

// rank is the beginning of an address as two numbers, which are in the order of the texts and compare
// far faster. Of an IPv4 address they are the whole.
type rank struct {
	high, low uint64
	at        int
}

func newRank(address string, at int) rank {
	var first [16]byte
	copy(first[:], address)
	return rank{binary.BigEndian.Uint64(first[:8]), binary.BigEndian.Uint64(first[8:]), at}
}
