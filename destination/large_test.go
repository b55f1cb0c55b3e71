package destination

import (
	"net/netip"
	"strings"
	"testing"
)

func TestLargeSetsAreSplit(t *testing.T) {
	var list []Endpoint
	for i := range 30_000 {
		ep := endpoint(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), 80).String())
		ep.Identity, ep.ServerName = "spiffe://x.consul/ns/default/dc/dc1/svc/api", "api.default.dc1.internal.x.consul"
		list = append(list, ep)
	}
	var g Get
	for _, pool := range []*Pool{poolOf("api", list...), poolOf("api", endpoint("10.0.0.1:80"))} {
		steps := g.Next(Some, pool)
		if len(steps) < 2 {
			t.Errorf("%d endpoints came in %d step", len(pool.addrs), len(steps))
		}
		if decodeStep(t, steps[0]).GetAdd() == nil {
			t.Error("the first part is not an add")
		}
		for _, s := range steps {
			if len(s) > 4<<20 {
				t.Errorf("a step has %d bytes", len(s))
			}
		}
	}
}

// TestALargeFailoverIsNeverEmpty has so many endpoints replaced by others that it takes several messages: all that come
// are there before the first goes.
func TestALargeFailoverIsNeverEmpty(t *testing.T) {
	const n = 8_000
	side := func(net byte) (list []Endpoint) {
		for i := range n {
			ep := endpoint(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, net, byte(i >> 8), byte(i)}), 80).String())
			ep.Node, ep.Zone, ep.Instance = strings.Repeat("n", maxText), strings.Repeat("z", maxText), strings.Repeat("i", maxText)
			list = append(list, ep)
		}
		return list
	}
	var g Get
	var seen Seen
	adds, removes := 0, 0
	for _, pool := range []*Pool{poolOf("api", side(1)...), poolOf("spare", side(2)...)} {
		for i, step := range g.Next(Some, pool) {
			u := decodeStep(t, step)
			seen.Apply(u)
			adds, removes = adds+len(u.GetAdd().GetAddrs()), removes+len(u.GetRemove().GetAddrs())
			switch {
			case len(step) > 4<<20:
				t.Errorf("a message has %d bytes", len(step))
			case u.GetNoEndpoints() != nil, len(seen.Endpoints) == 0, i == 0 && u.GetAdd() == nil:
				t.Errorf("message %d leaves %d endpoints", i, len(seen.Endpoints))
			case u.GetRemove() != nil && adds != 2*n:
				t.Errorf("endpoints go when %d have come", adds)
			}
		}
	}
	if adds != 2*n || removes != n || len(seen.Endpoints) != n {
		t.Errorf("%d were added, %d removed, and %d are left", adds, removes, len(seen.Endpoints))
	}
}
