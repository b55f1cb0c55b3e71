package envoy

import (
	"fmt"
	"testing"

	"github.com/catenary-mesh/catenary/snapshot"
)

// manyEndpoints is endpoints of three zones.
func manyEndpoints(n int) []snapshot.Endpoint {
	list := make([]snapshot.Endpoint, n)
	for i := range list {
		list[i] = snapshot.Endpoint{
			Address: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), Port: 8080,
			Health: snapshot.Healthy, Weight: uint32(1 + i%3),
			Region: "eu-west-1", Zone: fmt.Sprintf("eu-west-1%c", 'a'+i%3),
		}
	}
	return list
}

func BenchmarkEncode(b *testing.B) {
	for _, n := range []int{5, 100, 10_000} {
		set := snapshot.EndpointSet{Endpoints: manyEndpoints(n)}
		b.Run(fmt.Sprintf("endpoints/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Resource(snapshot.Ref{Name: "api.default.dc1.internal", Key: snapshot.EndpointSetKey{}}, set); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	for name, p := range products() {
		if name == "endpoints" {
			continue
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Resource(p.ref, p.product); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
