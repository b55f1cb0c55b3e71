package snapshot

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/hashicorp/go-bexpr"

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
	// Skipped says which instances are left out although they match, and why.
	Skipped []string
}

// make selects and judges the instances of the topic.
func (k EndpointSetKey) make(r *facts.Reader) EndpointSet {
	instances, _ := r.Instances(k.Topic)
	keep, err := filter(k.Filter)
	if err != nil {
		return EndpointSet{Skipped: []string{err.Error()}}
	}
	var set EndpointSet
	for _, in := range instances {
		if !keep(in) {
			continue
		}
		address, port := dial(in, k.WAN)
		if _, err := netip.ParseAddr(address); err != nil || port <= 0 || port > 65535 {
			set.Skipped = append(set.Skipped, fmt.Sprintf(
				"%s on %s: %q is not an IP address and port that Envoy can dial",
				in.Service.ID, in.Node.Node, fmt.Sprintf("%s:%d", address, port)))
			continue
		}
		health, weight := Judge(in, k.OnlyPassing)
		e := Endpoint{Address: address, Port: uint32(port), Health: health, Weight: weight}
		if l := locality(in); l != nil {
			e.Region, e.Zone = l.Region, l.Zone
		}
		set.Endpoints = append(set.Endpoints, e)
	}
	set.Endpoints = distinct(set.Endpoints)
	return set
}

// filter compiles a subset's filter. An instance on which it cannot be evaluated does not match.
func filter(expression string) (func(*facts.Instance) bool, error) {
	if expression == "" {
		return func(*facts.Instance) bool { return true }, nil
	}
	eval, err := bexpr.CreateEvaluator(expression)
	if err != nil {
		return nil, fmt.Errorf("filter %q: %w", expression, err)
	}
	return func(in *facts.Instance) bool {
		ok, err := eval.Evaluate(*in)
		return err == nil && ok
	}, nil
}

// dial is the address to reach an instance by: its own, else its node's; from another datacenter the
// one tagged wan where there is one.
func dial(in *facts.Instance, wan bool) (string, int) {
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

func locality(in *facts.Instance) *facts.Locality {
	if in.Service.Locality != nil {
		return in.Service.Locality
	}
	return in.Node.Locality
}

// distinct orders endpoints and keeps one of each address: clients refuse a set that names an address
// twice. Of several the healthy one wins.
func distinct(endpoints []Endpoint) []Endpoint {
	slices.SortFunc(endpoints, func(a, b Endpoint) int {
		return cmp.Or(
			cmp.Compare(a.Address, b.Address), cmp.Compare(a.Port, b.Port),
			cmp.Compare(a.Health, b.Health), cmp.Compare(b.Weight, a.Weight),
			cmp.Compare(a.Region, b.Region), cmp.Compare(a.Zone, b.Zone),
		)
	})
	return slices.CompactFunc(endpoints, func(a, b Endpoint) bool {
		return a.Address == b.Address && a.Port == b.Port
	})
}
