package xds

import (
	"slices"
	"sync"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/catenary-mesh/catenary/snapshot"
	"github.com/catenary-mesh/catenary/xds/session"
)

// otherLoad stands for the services and places that are not counted by their names.
const otherLoad = "other"

const (
	// maxPlaces bounds the services with a region and zone that are told apart: whatever was counted once
	// stays for good.
	maxPlaces = 10_000
	// maxReported bounds the clusters of a report, and of each the localities, that are looked at.
	maxReported = 10_000
)

// place is where requests went.
type place struct{ service, datacenter, region, zone string }

// places are those that were counted by their names. The zero value is empty.
type places struct {
	mu    sync.Mutex // guards known
	known map[place]struct{}
}

// has reports whether a place was counted before.
func (p *places) has(at place) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.known[at]
	return ok
}

// add reports whether there is room for one more.
func (p *places) add(at place) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.known[at]; !ok && len(p.known) >= maxPlaces {
		return false
	}
	if p.known == nil {
		p.known = map[place]struct{}{}
	}
	p.known[at] = struct{}{}
	return true
}

// countLoads counts a client's report.
func (s *Server) countLoads(id string, m *loadReport) {
	if len(m.clusters) == 0 {
		return
	}
	s.cfg.Loads.LoadReported()
	root := s.pub.root.Load()
	held := root.listingsOf(id)
	sums := map[Load]uint64{}
	for _, c := range m.clusters[:min(len(m.clusters), maxReported)] {
		set, served := targetOf(held, c)
		switch {
		case served:
			sumLoads(sums, c, func(region, zone string) place { return s.placed(root, set, region, zone) })
		case isInbound(held, c):
			continue // whoever called has counted it
		default:
			sumLoads(sums, c, func(string, string) place { return place{service: otherLoad} })
		}
	}
	for l, n := range sums {
		if n > 0 {
			s.cfg.Loads.Load(l, n)
		}
	}
}

// sumLoads adds up what is reported of a cluster. What is dropped was to go nowhere in particular.
func sumLoads(sums map[Load]uint64, c *endpointv3.ClusterStats, placed func(region, zone string) place) {
	add := func(at place, status string, n uint64) {
		sums[Load{Service: at.service, Datacenter: at.datacenter, Region: at.region, Zone: at.zone, Status: status}] += n
	}
	locals := c.GetUpstreamLocalityStats()
	for _, l := range locals[:min(len(locals), maxReported)] {
		at := placed(l.GetLocality().GetRegion(), l.GetLocality().GetZone())
		add(at, LoadSuccess, l.GetTotalSuccessfulRequests())
		add(at, LoadError, l.GetTotalErrorRequests())
	}
	if n := c.GetTotalDroppedRequests(); n > 0 {
		add(placed("", ""), LoadDropped, n)
	}
}

// placed is the place under which requests to a set are counted: a client can make up any number of regions.
func (s *Server) placed(r *root, set loaded, region, zone string) place {
	at := place{set.Topic.Name, set.Topic.Datacenter, region, zone}
	if s.places.has(at) {
		return at
	}
	if region+zone != "" && !set.holds(r, region, zone) {
		at.region, at.zone = otherLoad, otherLoad
	}
	if !s.places.add(at) {
		return place{service: otherLoad}
	}
	return at
}

// listingsOf returns what the streams of a client have.
func (r *root) listingsOf(id string) []*listing {
	var list []*listing
	r.seats.Root().WalkPrefix([]byte(id+"#"), func(_ []byte, at seat) bool {
		if !slices.Contains(list, at.listing) {
			list = append(list, at.listing)
		}
		return false
	})
	return list
}

// loaded is the endpoint set that a client sends requests to.
type loaded struct {
	snapshot.EndpointSetKey
	variant variantID
}

// targetOf returns what is behind a cluster of a client.
func targetOf(held []*listing, c *endpointv3.ClusterStats) (loaded, bool) {
	for _, l := range held {
		for _, name := range []string{c.GetClusterServiceName(), c.GetClusterName()} {
			if key, ok := l.sets()[name]; ok {
				return loaded{key, l.byURL[session.EndpointURL][name]}, true
			}
		}
	}
	return loaded{}, false
}

// isInbound reports whether a client has a cluster for what comes in to it: one without an endpoint set.
func isInbound(held []*listing, c *endpointv3.ClusterStats) bool {
	return slices.ContainsFunc(held, func(l *listing) bool {
		_, ok := l.byURL[session.ClusterURL][c.GetClusterName()]
		return ok
	})
}

// setsOf returns the endpoint sets of a selection by name.
func setsOf(sel *snapshot.Selection) map[string]snapshot.EndpointSetKey {
	sets := map[string]snapshot.EndpointSetKey{}
	for _, ref := range sel.Resources() {
		if key, ok := ref.Key.(snapshot.EndpointSetKey); ok {
			sets[ref.Name] = key
		}
	}
	return sets
}

// holds reports whether a set has endpoints at a place, by the bytes that are published of it.
func (l loaded) holds(r *root, region, zone string) bool {
	res, ok := r.resources.Get(l.variant.key())
	if !ok {
		return false
	}
	const endpoints, locality = 2, 1 // ClusterLoadAssignment.endpoints, LocalityLbEndpoints.locality
	found := false
	each(res.Body, endpoints, func(group []byte) {
		each(group, locality, func(at []byte) {
			found = found || text(at, 1) == region && text(at, 2) == zone
		})
	})
	return found
}

// each calls f with every field of a number that has bytes, of a message that was encoded here.
func each(message []byte, number protowire.Number, f func([]byte)) {
	for len(message) > 0 {
		num, typ, n := protowire.ConsumeTag(message)
		if n < 0 {
			return
		}
		size := protowire.ConsumeFieldValue(num, typ, message[n:])
		if size < 0 {
			return
		}
		if num == number && typ == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(message[n:])
			f(value)
		}
		message = message[n+size:]
	}
}

// text is a field of a message that has text.
func text(message []byte, number protowire.Number) string {
	out := ""
	each(message, number, func(b []byte) { out = string(b) })
	return out
}
