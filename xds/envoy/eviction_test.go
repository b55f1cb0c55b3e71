package envoy

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	netrbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	netwasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/wasm/v3"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/evict"
	"github.com/catenary-mesh/catenary/snapshot"
)

// staying is whether the connections of an identity may stay, as the module judges: the first pattern that
// matches decides.
func staying(list []evict.Rule, id string) bool {
	for _, r := range list {
		if regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(r.Pattern), `\*`, ".*") + "$").MatchString(id) {
			return r.Keep
		}
	}
	return false
}

func TestConnectionsStayExactlyWhileSomethingOfThemPasses(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for n := range 400 {
		list, allow, layer7 := randomIntentions(rnd), rnd.IntN(2) == 0, rnd.IntN(3) > 0
		i := made(t, list, allow, layer7)
		r, kept := rules(i), stays(i)
		for _, source := range []string{"a", "b", "c", "d"} {
			some := false
			for _, path := range []string{"/one", "/o", "/x"} {
				for _, method := range []string{"GET", "PUT", "POST"} {
					for _, headers := range []map[string]string{nil, {"x": "1"}} {
						some = some || passes(r, call{source, path, method, headers})
					}
				}
			}
			id := call{source: source}.id()
			// Permissions that deny every request one by one leave the connection.
			if got := staying(kept, id); got != some && !(got && layer7) {
				t.Fatalf("round %d: default allow %v, layer 7 %v: %s stays: %v, and something passes: %v\n%v\n%v", n, allow, layer7, source, got, some, kept, r)
			}
		}
	}
}

func TestWhoCannotRunTheModuleGetsAFilterThatDoesNothing(t *testing.T) {
	i := made(t, []*chain.ServiceIntentions{{Header: chain.Header{Name: "web"}, Sources: []*chain.SourceIntention{{Name: "a", Action: chain.IntentionDeny}}}}, true, false)
	with := eviction("e", snapshot.Eviction{Intentions: i, Wasm: true})
	if !with.GetTypedConfig().MessageIs(&netwasmv3.Wasm{}) {
		t.Errorf("who can run it gets %s", with.GetTypedConfig().GetTypeUrl())
	}
	without := eviction("e", snapshot.Eviction{Intentions: i})
	filter := &netrbacv3.RBAC{}
	if err := without.GetTypedConfig().UnmarshalTo(filter); err != nil || filter.GetRules() != nil {
		t.Errorf("who cannot gets %v, %v", without, err)
	}
	for n := range evict.MaxRules + 1 {
		i.Rules = append(i.Rules, snapshot.IntentionRule{Source: strings.Repeat("s", n%50+1)})
	}
	if many := eviction("e", snapshot.Eviction{Intentions: i, Wasm: true}); !many.GetTypedConfig().MessageIs(filter) {
		t.Errorf("more rules than the module takes give %s", many.GetTypedConfig().GetTypeUrl())
	}
}
