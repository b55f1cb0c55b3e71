package facts_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

func TestVirtualIPsAreUnknownUntilRead(t *testing.T) {
	s := facts.New()
	if _, state := s.View().VirtualIPs("dc1"); state != facts.Unknown {
		t.Errorf("at first they are %s", state)
	}
	commit := func() (out facts.Outcome) {
		s.Commit(func(tx *facts.Tx) {
			out = tx.VirtualIPs("dc1", facts.Virtual{Services: map[string]facts.ServiceIPs{"api": {Manual: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}}})
		})
		return out
	}
	if !commit().Changed || commit().Changed {
		t.Error("what changed is not told by content")
	}
	if all, state := s.View().VirtualIPs("dc1"); state != facts.Present || len(all.Services) != 1 {
		t.Errorf("got %v, %s", all, state)
	}
	s.Commit(func(tx *facts.Tx) { tx.Forget(facts.VirtualIPs("dc1")) })
	if _, state := s.View().VirtualIPs("dc1"); state != facts.Unknown {
		t.Errorf("forgotten they are %s", state)
	}
	s.Commit(func(tx *facts.Tx) { tx.CloseWorld() })
	if _, state := s.View().VirtualIPs("dc1"); state != facts.Absent {
		t.Errorf("in a closed world they are %s", state)
	}
}

func TestWhoHasVirtualIPs(t *testing.T) {
	s := facts.New()
	topic := facts.Health("dc1", "mixed")
	tagged := func(id, kind, tag, address string, proxy *facts.Proxy) *facts.Instance {
		return &facts.Instance{Node: facts.Node{Node: "n"}, Service: facts.Service{
			Service: "Mixed", ID: id, Kind: kind, Proxy: proxy, TaggedAddresses: map[string]facts.Address{tag: {Address: address}, "lan": {Address: "10.0.0.9"}},
		}}
	}
	s.Commit(func(tx *facts.Tx) {
		tx.Instances(topic, []*facts.Instance{
			tagged("1", "", "consul-virtual", "240.0.0.1", nil),
			tagged("2", "connect-proxy", "consul-virtual", "240.0.0.2", &facts.Proxy{DestinationServiceName: "API"}),
			tagged("3", "terminating-gateway", "consul-virtual:ext", "240.0.0.3", nil),
			tagged("4", "", "virtual", "nonsense", nil),
			tagged("5", "connect-proxy", "virtual", "10.0.0.1", &facts.Proxy{}),
			tagged("6", "", "virtual", "fe80::1%eth0", nil),
		}, facts.Reading{Confirmed: true})
		tx.Entries(chain.KindServiceIntentions, []chain.Entry{
			&chain.ServiceIntentions{Header: chain.Header{Name: "*"}}, &chain.ServiceIntentions{Header: chain.Header{Name: "Web"}},
		}, facts.Reading{Confirmed: true})
	})
	if got := fmt.Sprint(s.View().VirtualOwners(topic), s.View().VirtualEntries()); got != "[mixed api ext] [web]" {
		t.Errorf("got %s", got)
	}
}
