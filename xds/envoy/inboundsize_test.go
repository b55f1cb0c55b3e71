package envoy

import (
	"testing"

	"github.com/catenary-mesh/catenary/snapshot"
)

// A listener has an address of its own and so is kept for each sidecar: what it takes is what a sidecar costs.
func TestAListenerForTheMeshIsSmall(t *testing.T) {
	for protocol, most := range map[string]int{"tcp": 5 << 10, "http": 7 << 10, "grpc": 7 << 10} {
		k := snapshot.PublicListenerKey{Address: "0.0.0.0", Port: 21000, Protocol: protocol, Evicts: true}
		r, err := Resource(snapshot.Ref{Name: snapshot.InboundListenerName(snapshot.PublicListener, k.Address, k.Port), Key: k}, k)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(r.Body); n > most {
			t.Errorf("%s: %d bytes, want %d at most", protocol, n, most)
		} else {
			t.Logf("%s: %d bytes", protocol, n)
		}
	}
}
