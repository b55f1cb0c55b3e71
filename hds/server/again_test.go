package server_test

import (
	"fmt"
	"testing"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// TestAnEndpointThatIsBackAtOnceHasItsVotesBack takes an endpoint out and in again before its checker hears of it.
func TestAnEndpointThatIsBackAtOnceHasItsVotesBack(t *testing.T) {
	r := newRig(t, nil)
	instances := func(name string, ports ...int) {
		var list []*facts.Instance
		for _, p := range ports {
			list = append(list, &facts.Instance{
				Node:    facts.Node{Node: fmt.Sprint("n", p), Address: "127.0.0.1", ModifyIndex: 1},
				Service: facts.Service{ID: fmt.Sprint(name, p), Service: name, Port: p, ModifyIndex: 1},
			})
		}
		r.store.Commit(func(tx *facts.Tx) { tx.Instances(facts.Health("dc1", name), list, confirmed) })
	}
	r.store.Commit(func(tx *facts.Tx) {
		tx.Entries(chain.KindServiceDefaults, []chain.Entry{
			&chain.ServiceDefaults{Header: chain.Header{Name: "api", Meta: tcp()}},
			&chain.ServiceDefaults{Header: chain.Header{Name: "other", Meta: tcp()}},
		}, confirmed)
	})
	instances("api", 8001, 8002)
	c := r.checker("a", allUp)
	c.probes(8001, 8002)
	r.verdicts("api", map[int]bool{8001: true, 8002: true})
	for range 3 {
		// The first change is told at once, and what comes soon after it together.
		instances("other", 9001)
		c.probes(8001, 8002, 9001)
		instances("api", 8001)
		r.verdicts("api", map[int]bool{8001: true})
		instances("api", 8001, 8002)
		r.verdicts("api", map[int]bool{8001: true, 8002: true})
		instances("other")
		c.probes(8001, 8002)
	}
}
