package snapshot

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// serverPlan plans a gRPC server that asks for listeners at addresses.
func serverPlan(c Client, store *facts.Store, addresses ...string) *Plan {
	c.Dialect = cmp.Or(c.Dialect, DialectGRPCGo)
	for _, a := range addresses {
		c.Names = append(c.Names, ServerListener+a)
	}
	cache := NewCache(Config{Datacenter: "dc1", TrustDomain: "t.consul"})
	return cache.Put("id", c, store.View()).Plans["id"]
}

// intended is facts with intentions of web.
func intended(sources ...*chain.SourceIntention) *facts.Store {
	store := facts.New()
	store.Commit(func(tx *facts.Tx) {
		for _, kind := range chain.AllKinds() {
			var list []chain.Entry
			switch kind {
			case chain.KindServiceIntentions:
				list = []chain.Entry{&chain.ServiceIntentions{Header: chain.Header{Name: "web"}, Sources: sources}}
			case chain.KindServiceDefaults:
				list = []chain.Entry{&chain.ServiceDefaults{Header: chain.Header{Name: "web"}, Protocol: "grpc"}}
			default:
			}
			tx.Entries(kind, list, facts.Reading{Confirmed: true})
		}
		tx.DefaultIntention(false)
	})
	return store
}

func TestAServersListenerIsWhereItListens(t *testing.T) {
	store := intended()
	for address, want := range map[string]GRPCListenerKey{
		"0.0.0.0:8080":   {Address: "0.0.0.0", Port: 8080},
		"[::]:8080":      {Address: "::", Port: 8080},
		"10.0.0.1:1":     {Address: "10.0.0.1", Port: 1},
		"":               {},
		"web:80":         {},
		"10.0.0.1":       {},
		"10.0.0.1:0":     {},
		"10.0.0.1:http":  {},
		"10.0.0.1:8080:": {},
	} {
		p := serverPlan(Client{Service: "web"}, store, address)
		if len(p.Parts) != 1 || p.Parts[0].Pending != "" {
			t.Fatalf("%q: %+v", address, p.Parts)
		}
		if want == (GRPCListenerKey{}) {
			if len(p.Resources()) > 0 || len(p.Parts[0].Missing) != 1 {
				t.Errorf("%q is no address, and there is %v: %v", address, p.Resources(), p.Parts[0].Missing)
			}
			continue
		}
		want.Name = ServerListener + address
		if got := p.Resources(); !slices.Equal(got, []Ref{{Name: want.Name, Key: want}}) {
			t.Errorf("%q: %+v, want %+v", address, got, want)
		}
	}
}

func TestAServerOfTheMeshHasTheIntentionsOfItsService(t *testing.T) {
	p := serverPlan(Client{Service: "web", Mesh: true}, intended(), "0.0.0.0:1")
	got, _ := p.Resources()[0].Key.(GRPCListenerKey)
	if want := (IntentionsKey{Service: "web", TrustDomain: "t.consul", Layer7: true}); got.Intentions != want || !got.Mesh() {
		t.Errorf("%+v, want %+v", got.Intentions, want)
	}
	if !slices.Contains(p.Topics(), facts.DefaultIntention()) {
		t.Errorf("%v are followed", p.Topics())
	}
	plain := serverPlan(Client{Service: "web"}, facts.New(), "0.0.0.0:1") // waits for nothing
	if got, _ := plain.Resources()[0].Key.(GRPCListenerKey); got.Mesh() {
		t.Errorf("outside the mesh there are intentions: %+v", got)
	}
	if p := serverPlan(Client{Service: "web", Mesh: true}, facts.New(), "0.0.0.0:1"); p.Parts[0].Pending == "" || len(p.Resources()) > 0 {
		t.Errorf("served before the intentions are known: %+v", p.Parts[0])
	}
}

func TestAServerIsNotedWhatItCannotJudge(t *testing.T) {
	by := func(header string) *chain.SourceIntention {
		return &chain.SourceIntention{Name: "api", Permissions: []*chain.IntentionPermission{
			{Action: chain.IntentionAllow, HTTP: &chain.IntentionHTTP{Header: []chain.IntentionHeader{{Name: header, Present: true}}}},
		}}
	}
	for header, noted := range map[string]bool{"x-user": false, "Grpc-Timeout": true, "key-bin": true, "Connection": true} {
		store := intended(by(header))
		p := serverPlan(Client{Service: "web", Mesh: true}, store, "0.0.0.0:1")
		if text := strings.Join(p.Parts[0].Notes, "\n"); strings.Contains(text, "do not judge by") != noted {
			t.Errorf("%s: notes %q", header, text)
		}
		made, ok := p.Resources()[0].Key.(GRPCListenerKey).make(store.View().Read())
		if rules := made.(GRPCListener).Intentions.Rules; !ok || (len(rules) == 0) != noted {
			t.Errorf("%s: rules %+v", header, rules)
		}
	}
	p := serverPlan(Client{Service: "web", Mesh: true, Dialect: DialectGRPCNode}, intended(), "0.0.0.0:1")
	if text := strings.Join(p.Parts[0].Notes, "\n"); !strings.Contains(text, "GRPC_XDS_EXPERIMENTAL_RBAC") {
		t.Errorf("notes %q", text)
	}
}
