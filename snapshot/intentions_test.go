package snapshot

import (
	"reflect"
	"strings"
	"testing"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

func TestNothingIsOpenedWhileAnIntentionAboutEverybodyMayBeHidden(t *testing.T) {
	store := facts.New()
	own := &chain.ServiceIntentions{Header: chain.Header{Name: "web"}, Sources: []*chain.SourceIntention{{Name: "a", Action: chain.IntentionAllow}}}
	store.Commit(func(tx *facts.Tx) {
		for _, kind := range chain.AllKinds() {
			tx.Entries(kind, nil, facts.Reading{Confirmed: kind != chain.KindServiceIntentions})
		}
		tx.Entries(chain.KindServiceIntentions, []chain.Entry{own}, facts.Reading{})
		tx.DefaultIntention(true)
	})
	if p := plannedInbound(store, sidecar(nil)); !strings.Contains(p.Pending, "service-intentions") || len(p.Resources) > 0 {
		t.Errorf("pending %q, %v", p.Pending, resourceNames(p))
	}
}

// intentionsOf is who may talk to web by what a store knows.
func intentionsOf(t *testing.T, store *facts.Store) Intentions {
	t.Helper()
	i, ok := IntentionsKey{Service: "web", TrustDomain: "t.consul", Layer7: true}.Make(store.View())
	if !ok {
		t.Fatal("it is not known who may talk to web")
	}
	return i
}

func TestAnIntentionThatMayOnlyBeHiddenHoldsOn(t *testing.T) {
	store := facts.New()
	deny := &chain.ServiceIntentions{Header: chain.Header{Name: "web"}, Sources: []*chain.SourceIntention{{Name: "a", Action: chain.IntentionDeny}}}
	read := func(list []chain.Entry, confirmed bool) Intentions {
		store.Commit(func(tx *facts.Tx) {
			tx.Entries(chain.KindServiceIntentions, list, facts.Reading{Confirmed: confirmed})
			tx.DefaultIntention(true)
		})
		return intentionsOf(t, store)
	}
	if i := read([]chain.Entry{deny}, true); len(i.Rules) != 1 {
		t.Fatalf("%+v", i)
	}
	if i := read(nil, false); len(i.Rules) != 1 {
		t.Errorf("of a reading that lacks it: %+v", i)
	}
	if i := read(nil, true); len(i.Rules) != 0 {
		t.Errorf("of one that knows that it is gone: %+v", i)
	}
}

// Consul stores patterns that Envoy refuses, and with them all that is said of a service.
func TestAPermissionThatEnvoyWouldRefuseSilencesItsSourceOnly(t *testing.T) {
	good := &chain.IntentionPermission{Action: chain.IntentionAllow, HTTP: &chain.IntentionHTTP{PathPrefix: "/"}}
	for name, http := range map[string]*chain.IntentionHTTP{
		"a path":   {PathRegex: "("},
		"a header": {Header: []chain.IntentionHeader{{Name: "x", Regex: "[z-a]"}}},
		"a method": {Methods: []string{"GET", "*"}},
		"no name":  {Header: []chain.IntentionHeader{{Present: true}}},
		"a name":   {Header: []chain.IntentionHeader{{Name: "x\ny", Present: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			bad := &chain.IntentionPermission{Action: chain.IntentionDeny, HTTP: http}
			entry := &chain.ServiceIntentions{Header: chain.Header{Name: "web"}, Sources: []*chain.SourceIntention{
				{Name: "a", Permissions: []*chain.IntentionPermission{bad, good}}, {Name: "b", Permissions: []*chain.IntentionPermission{good}},
			}}
			for _, allow := range []bool{true, false} {
				store := facts.New()
				store.Commit(func(tx *facts.Tx) {
					tx.Entries(chain.KindServiceIntentions, []chain.Entry{entry}, facts.Reading{Confirmed: true})
					tx.DefaultIntention(allow)
				})
				want := []IntentionRule{{Source: "a"}} // is denied
				if !allow {
					want = []IntentionRule{{Source: "b", Permissions: []*chain.IntentionPermission{good}}} // all that is allowed
				}
				if i := intentionsOf(t, store); !reflect.DeepEqual(i.Rules, want) {
					t.Errorf("default allow %v: %+v, want %+v", allow, i.Rules, want)
				}
			}
			p := inboundOf(t, sidecar(map[string]any{"protocol": "http"}), entry)
			if len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "of a ") {
				t.Errorf("notes %q", p.Notes)
			}
		})
	}
}

func TestPatternsAreThoseThatEnvoyTakes(t *testing.T) {
	for pattern, want := range map[string]bool{
		`/v[0-9]+/.*`: true, ``: true, `é|中`: true, `\x{ff}`: true, `\377`: true, `\\x{300}`: true, `\p{Greek}`: true,
		`(`: false, `[z-a]`: false, `(?=a)`: false, `a{1001}`: false,
		// Refused by Envoy 1.40, taken by 1.36.
		`\x{100}`: false, `[\x{4e00}-\x{9fff}]`: false, `\777`: false, `\\\x{000100}`: false,
	} {
		if err := checkPattern(pattern); (err == nil) != want {
			t.Errorf("%s: %v", pattern, err)
		}
	}
}
