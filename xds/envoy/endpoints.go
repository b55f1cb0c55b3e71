package envoy

import (
	"fmt"
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/catenary-mesh/catenary/snapshot"
)

// endpoints is an endpoint set as a message.
func endpoints(name string, set snapshot.EndpointSet) (*endpointv3.ClusterLoadAssignment, error) {
	body, err := encodeEndpoints(name, set)
	if err != nil {
		return nil, err
	}
	m := &endpointv3.ClusterLoadAssignment{}
	return m, proto.Unmarshal(body, m)
}

// encodeEndpoints encodes a set as a ClusterLoadAssignment, grouped by locality in the order of first
// appearance. It writes the bytes itself, exactly those of the protobuf library: endpoints are what
// changes all the time, and of a large set the messages alone would take longer than all the rest.
func encodeEndpoints(name string, set snapshot.EndpointSet) ([]byte, error) {
	groups, member := byLocality(set.Endpoints)
	size, valid := stringSize(name), utf8.ValidString(name)
	for i := range groups {
		g := &groups[i]
		size += g.place(size)
		valid = valid && utf8.ValidString(g.region) && utf8.ValidString(g.zone)
	}
	if !valid {
		return nil, fmt.Errorf("the name %q or a locality is not valid UTF-8", name)
	}
	body := make([]byte, size)
	appendString(body[:0], 1, name) // cluster_name
	for i := range groups {
		groups[i].write(body)
	}
	for i := range set.Endpoints {
		g := &groups[member[i]]
		g.next = len(appendEndpoint(body[:g.next], &set.Endpoints[i]))
	}
	return body, nil
}

// byLocality returns the localities of endpoints, and for each endpoint the locality it is in.
func byLocality(list []snapshot.Endpoint) (groups []locality, member []int) {
	type place struct{ region, zone string }
	known := map[place]int{}
	member = make([]int, len(list))
	for i := range list {
		e := &list[i]
		at, ok := known[place{e.Region, e.Zone}]
		if !ok {
			at = len(groups)
			known[place{e.Region, e.Zone}] = at
			groups = append(groups, locality{region: e.Region, zone: e.Zone})
		}
		member[i] = at
		groups[at].weight += e.Weight
		groups[at].endpoints += messageSize(measure(e).lbEndpoint)
	}
	return groups, member
}

// locality is one LocalityLbEndpoints. Each has a weight, without which gRPC ignores it.
type locality struct {
	region, zone string
	weight       uint32
	// endpoints is the size of all its endpoints.
	endpoints int
	// start and next are where it and its next endpoint begin in the body.
	start, next int
}

// place sets where the locality begins, and returns its size.
func (g *locality) place(start int) int {
	g.start = start
	return messageSize(g.size())
}

func (g *locality) name() int { return stringSize(g.region) + stringSize(g.zone) }

func (g *locality) size() int {
	return messageSize(g.name()) + g.endpoints + messageSize(valueSize(g.weight))
}

// write writes what is before and behind the endpoints.
func (g *locality) write(body []byte) {
	b := appendMessage(body[:g.start], 2, g.size()) // ClusterLoadAssignment.endpoints
	b = appendMessage(b, 1, g.name())               // locality
	b = appendString(b, 1, g.region)
	b = appendString(b, 2, g.zone)
	g.next = len(b)
	b = body[:g.next+g.endpoints]
	appendValue(b, 3, g.weight) // load_balancing_weight
}

// sizes are those of the messages around one endpoint.
type sizes struct{ socket, address, endpoint, lbEndpoint int }

func measure(e *snapshot.Endpoint) sizes {
	var s sizes
	s.socket = stringSize(e.Address) + 1 + protowire.SizeVarint(uint64(e.Port))
	s.address = messageSize(s.socket)
	s.endpoint = messageSize(s.address)
	s.lbEndpoint = 2 + messageSize(valueSize(e.Weight)) + messageSize(s.endpoint)
	return s
}

// appendEndpoint appends an LbEndpoint. Like the protobuf library it puts what is of a oneof last.
func appendEndpoint(b []byte, e *snapshot.Endpoint) []byte {
	health := corev3.HealthStatus_HEALTHY
	if e.Health == snapshot.Unhealthy {
		health = corev3.HealthStatus_UNHEALTHY
	}
	s := measure(e)
	b = appendMessage(b, 2, s.lbEndpoint) // LocalityLbEndpoints.lb_endpoints
	b = appendVarint(b, 2, uint64(health))
	b = appendValue(b, 4, e.Weight)
	b = appendMessage(b, 1, s.endpoint)
	b = appendMessage(b, 1, s.address)
	b = appendMessage(b, 1, s.socket)
	b = appendString(b, 2, e.Address)
	return appendVarint(b, 3, uint64(e.Port))
}
