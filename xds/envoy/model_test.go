package envoy

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/catenary-mesh/catenary/snapshot"
)

// assignment is what [encodeEndpoints] encodes, as messages.
func assignment(name string, set snapshot.EndpointSet) *endpointv3.ClusterLoadAssignment {
	type place struct{ region, zone string }
	groups := map[place]*endpointv3.LocalityLbEndpoints{}
	out := &endpointv3.ClusterLoadAssignment{ClusterName: name}
	for _, e := range set.Endpoints {
		at := place{e.Region, e.Zone}
		g := groups[at]
		if g == nil {
			g = &endpointv3.LocalityLbEndpoints{
				Locality:            &corev3.Locality{Region: e.Region, Zone: e.Zone},
				LoadBalancingWeight: wrapperspb.UInt32(0),
			}
			groups[at] = g
			out.Endpoints = append(out.Endpoints, g)
		}
		health := corev3.HealthStatus_HEALTHY
		if e.Health == snapshot.Unhealthy {
			health = corev3.HealthStatus_UNHEALTHY
		}
		g.LoadBalancingWeight.Value += e.Weight
		g.LbEndpoints = append(g.LbEndpoints, &endpointv3.LbEndpoint{
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{
				Endpoint: &endpointv3.Endpoint{Address: address(e.Address, e.Port)},
			},
			HealthStatus:        health,
			LoadBalancingWeight: wrapperspb.UInt32(e.Weight),
		})
	}
	return out
}

// sameAsTheLibrary compares the encoding of a set with that of the protobuf library.
func sameAsTheLibrary(t *testing.T, name string, set snapshot.EndpointSet) {
	t.Helper()
	want, wantErr := proto.MarshalOptions{Deterministic: true}.Marshal(assignment(name, set))
	got, err := encodeEndpoints(name, set)
	if (err != nil) != (wantErr != nil) {
		t.Fatalf("%q %+v: error %v, the library's %v", name, set, err, wantErr)
	}
	if err == nil && !bytes.Equal(got, want) {
		t.Fatalf("%q %+v:\n  got %x\n want %x", name, set, got, want)
	}
	if cap(got) != len(got) {
		t.Errorf("%d bytes are kept for %d", cap(got), len(got))
	}
}

// corners are values at which an encoding changes its shape.
var corners = struct {
	texts   []string
	numbers []uint32
}{
	texts: []string{
		"", "a", "eu-west-1", "eu-west-1a", "zürich", string(bytes.Repeat([]byte("x"), 126)),
		string(bytes.Repeat([]byte("x"), 127)), string(bytes.Repeat([]byte("x"), 128)), string(bytes.Repeat([]byte("x"), 17000)),
	},
	numbers: []uint32{0, 1, 2, 100, 127, 128, 129, 16383, 16384, 65535, 1<<21 - 1, 1 << 21, 1<<32 - 1},
}

func TestTheEncodingIsThatOfTheLibrary(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	text := func() string { return corners.texts[random.IntN(len(corners.texts))] }
	number := func() uint32 { return corners.numbers[random.IntN(len(corners.numbers))] }
	for n := range 300 {
		var set snapshot.EndpointSet
		for range n % 40 {
			e := snapshot.Endpoint{Address: text(), Port: number(), Health: snapshot.Healthy, Weight: number()}
			if random.IntN(2) == 0 {
				e.Health = snapshot.Unhealthy
			}
			if random.IntN(3) > 0 {
				e.Region, e.Zone = text(), text()
			}
			set.Endpoints = append(set.Endpoints, e)
		}
		sameAsTheLibrary(t, text(), set)
	}
}

func TestAnEmptySetIsAnAssignmentWithoutLocalities(t *testing.T) {
	sameAsTheLibrary(t, "v1.api.default.dc1", snapshot.EndpointSet{})
	sameAsTheLibrary(t, "", snapshot.EndpointSet{})
}

func TestWhatIsNotTextIsRefusedAsTheLibraryDoes(t *testing.T) {
	bad := "\xff"
	sameAsTheLibrary(t, bad, snapshot.EndpointSet{})
	sameAsTheLibrary(t, "api", snapshot.EndpointSet{Endpoints: []snapshot.Endpoint{{Address: "10.0.0.1", Region: bad}}})
	sameAsTheLibrary(t, "api", snapshot.EndpointSet{Endpoints: []snapshot.Endpoint{{Address: "10.0.0.1", Zone: bad}}})
}

func TestManyEndpointsInManyLocalities(t *testing.T) {
	for _, localities := range []int{1, 3, 100} {
		set := snapshot.EndpointSet{Endpoints: manyEndpoints(10_000)}
		for i := range set.Endpoints {
			set.Endpoints[i].Zone = fmt.Sprint(i % localities)
		}
		sameAsTheLibrary(t, "api", set)
	}
}

func TestEncodingASetTakesNoAllocationForEachEndpoint(t *testing.T) {
	set := snapshot.EndpointSet{Endpoints: manyEndpoints(1000)}
	n := testing.AllocsPerRun(10, func() {
		if _, err := encodeEndpoints("api", set); err != nil {
			t.Fatal(err)
		}
	})
	if n > 10 {
		t.Errorf("1000 endpoints take %.0f allocations", n)
	}
}

func FuzzEndpointsEncodeAsTheLibraryDoes(f *testing.F) {
	f.Add("api", "10.0.0.1", uint32(80), uint32(1), true, "eu", "a", uint8(3))
	f.Add("", "", uint32(0), uint32(0), false, "", "", uint8(0))
	f.Add("api", "2001:db8::1", uint32(65535), uint32(128), false, "eu", "", uint8(200))
	f.Fuzz(func(t *testing.T, name, address string, port, weight uint32, healthy bool, region, zone string, n uint8) {
		e := snapshot.Endpoint{Address: strings.ToValidUTF8(address, "?"), Port: port, Health: snapshot.Unhealthy, Weight: weight, Region: region, Zone: zone}
		if healthy {
			e.Health = snapshot.Healthy
		}
		var set snapshot.EndpointSet
		for i := range n {
			next := e
			if i%2 == 1 {
				next.Region, next.Weight = zone, weight+uint32(i)
			}
			if i%3 == 1 {
				next.Address = fmt.Sprintf("10.0.0.%d", i)
			}
			set.Endpoints = append(set.Endpoints, next)
		}
		sameAsTheLibrary(t, name, set)
	})
}
