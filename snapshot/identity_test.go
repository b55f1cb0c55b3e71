package snapshot

import (
	"slices"
	"strings"
	"testing"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// sidecarOf is the facts about a sidecar of a service, with an identity to be given.
func sidecarOf(service string) *facts.Store {
	s := facts.New()
	s.Commit(func(tx *facts.Tx) {
		tx.Services("dc1", []string{service}, facts.Reading{Confirmed: true})
		tx.Instances(facts.Proxies("dc1", service), []*facts.Instance{{
			Node:    facts.Node{Node: "n1", Address: "10.0.0.1"},
			Service: facts.Service{ID: "proxy", Kind: "connect-proxy", Service: service + "-sidecar-proxy", Port: 21000, Proxy: &facts.Proxy{DestinationServiceName: service}},
		}}, facts.Reading{Confirmed: true})
		tx.Roots(facts.Roots{TrustDomain: "t.consul", List: []facts.Root{{ID: "r", Cert: "CERT", Active: true}}})
		tx.Leaf(facts.LeafOf(service), facts.Leaf{Service: service, Serial: "1"})
	})
	return s
}

func secretsOf(p *Plan) (names []string) {
	for _, ref := range p.Resources() {
		if ref.Key.Product() == ProductSecret {
			names = append(names, ref.Name)
		}
	}
	return names
}

func TestOnlyWhoProvedToBeTheServiceGetsItsCertificate(t *testing.T) {
	store := sidecarOf("web")
	cache := NewCache(Config{Datacenter: "dc1", TrustDomain: "t.consul"})
	plan := func(c Client) *Plan { return cache.Put(c.ID+c.Service, c, store.View()).Plans[c.ID+c.Service] }

	if p := plan(Client{ID: "proxy", Service: "web"}); len(p.Resources()) > 0 || !strings.Contains(p.Hold, "--grpc-auth") {
		t.Errorf("who proved nothing gets %v, hold %q", p.Resources(), p.Hold)
	}
	if p := plan(Client{ID: "proxy", Service: "WEB", Proved: true}); len(p.Resources()) > 0 || !strings.Contains(p.Unregistered, "spelled alike") {
		t.Errorf("who proved to be WEB gets %v, unregistered %q", p.Resources(), p.Unregistered)
	}
	if got := secretsOf(plan(Client{ID: "proxy", Service: "web", Proved: true})); len(got) != 2 {
		t.Errorf("who proved to be web gets the secrets %v", got)
	}
	if got := secretsOf(plan(Client{ID: "proxy", Service: "web", Declared: true, Proved: true})); len(got) != 0 {
		t.Errorf("a plain client gets the secrets %v", got)
	}
}

func TestASidecarWaitsForItsIdentityAndARenewalChangesNoPlan(t *testing.T) {
	store := sidecarOf("web")
	store.Commit(func(tx *facts.Tx) { tx.Forget(facts.LeafOf("web")) })
	sub := store.Subscribe()
	defer sub.Close()
	cache := NewCache(Config{Datacenter: "dc1", TrustDomain: "t.consul"})
	p := cache.Put("c", Client{ID: "proxy", Service: "web", Proved: true}, store.View()).Plans["c"]
	if p.Hold == "" || !strings.Contains(p.Hold, "leaf/web") {
		t.Fatalf("it does not wait for its certificate: hold %q", p.Hold)
	}
	commit := func(serial string) (Delta, Counts) {
		before := cache.Counts()
		store.Commit(func(tx *facts.Tx) { tx.Leaf(facts.LeafOf("web"), facts.Leaf{Service: "web", Serial: serial}) })
		view, changed := sub.Drain()
		d := cache.Update(view, changed)
		after := cache.Counts()
		return d, Counts{Plans: after.Plans - before.Plans, Parts: after.Parts - before.Parts}
	}
	if d, _ := commit("1"); d.Plans["c"] == nil || d.Plans["c"].Hold != "" {
		t.Fatalf("it goes on waiting: %+v", d.Plans["c"])
	}
	d, ran := commit("2")
	if len(d.Plans) != 0 || ran.Plans != 0 || ran.Parts != 0 || len(d.Products) != 1 {
		t.Fatalf("a renewal replans %v, ran %+v, makes %d products: want one secret", d.Plans, ran, len(d.Products))
	}
	store.Commit(func(tx *facts.Tx) { tx.Forget(facts.LeafOf("web")) })
	view, changed := sub.Drain()
	cache.Update(view, changed)
	if p := cache.Plan("c"); p.Hold != "" || len(secretsOf(p)) != 2 {
		t.Fatalf("what it has is taken away: hold %q, %v", p.Hold, secretsOf(p))
	}
}

// A sidecar whose certificate is of another trust domain than all names would be turned away by everyone.
func TestASidecarWaitsWhileConsulHasAnotherTrustDomain(t *testing.T) {
	store := sidecarOf("web")
	sub := store.Subscribe()
	defer sub.Close()
	cache := NewCache(Config{Datacenter: "dc1", TrustDomain: "other.consul"})
	p := cache.Put("c", Client{ID: "proxy", Service: "web", Proved: true}, store.View()).Plans["c"]
	if len(p.Resources()) > 0 || !strings.Contains(p.Hold, `"t.consul"`) || !strings.Contains(p.Hold, `"other.consul"`) {
		t.Fatalf("hold %q, %v", p.Hold, p.Resources())
	}
	store.Commit(func(tx *facts.Tx) {
		tx.Roots(facts.Roots{TrustDomain: "other.consul", List: []facts.Root{{ID: "r", Cert: "CERT", Active: true}}})
	})
	cache.Update(sub.Drain())
	if got := secretsOf(cache.Plan("c")); len(got) != 2 {
		t.Errorf("it gets the secrets %v", got)
	}
}

// Who cannot listen where a registration says is served as before: the error is one of the configuration.
func TestASidecarThatCannotListenWhereItIsToldStaysWhereItWas(t *testing.T) {
	store := sidecarOf("web")
	store.Commit(func(tx *facts.Tx) {
		for _, kind := range chain.AllKinds() {
			tx.Entries(kind, nil, facts.Reading{Confirmed: true})
		}
		tx.DefaultIntention(true)
	})
	sub := store.Subscribe()
	defer sub.Close()
	cache := NewCache(Config{Datacenter: "dc1", TrustDomain: "t.consul"})
	cache.Put("c", Client{ID: "proxy", Service: "web", Proved: true}, store.View())
	listeners := func(address string) (names []string, missing string) {
		store.Commit(func(tx *facts.Tx) {
			tx.Instances(facts.Proxies("dc1", "web"), []*facts.Instance{{
				Node:    facts.Node{Node: "n1", Address: "10.0.0.1"},
				Service: facts.Service{ID: "proxy", Kind: "connect-proxy", Address: address, Port: 21000, Proxy: &facts.Proxy{DestinationServiceName: "web"}},
			}}, facts.Reading{Confirmed: true})
		})
		cache.Update(sub.Drain())
		p := cache.Plan("c")
		for _, ref := range p.Resources() {
			if ref.Key.Product() == ProductListener {
				names = append(names, ref.Name)
			}
		}
		if !p.Complete() {
			t.Errorf("at %s it waits: hold %q", address, p.Hold)
		}
		return names, strings.Join(p.Parts[1].Missing, "")
	}
	first, _ := listeners("10.0.0.1")
	if !slices.Equal(first, []string{"public_listener:10.0.0.1:21000"}) {
		t.Fatalf("it listens at %v", first)
	}
	if got, missing := listeners("web.example"); !slices.Equal(got, first) || !strings.Contains(missing, "web.example") {
		t.Errorf("it listens at %v, and that says why: %q", got, missing)
	}
	if got, missing := listeners("10.0.0.2"); !slices.Equal(got, []string{"public_listener:10.0.0.2:21000"}) || missing != "" {
		t.Errorf("then it listens at %v, %q", got, missing)
	}
}
