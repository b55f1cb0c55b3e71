package envoy

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"strings"
	"testing"

	netwasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/wasm/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

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

func TestMoreRulesThanTheModuleTakesLeaveEveryoneWhatIsOpen(t *testing.T) {
	i := made(t, []*chain.ServiceIntentions{{Header: chain.Header{Name: "web"}, Sources: []*chain.SourceIntention{{Name: "a", Action: chain.IntentionDeny}}}}, true, false)
	text := func() string {
		filter, value := &netwasmv3.Wasm{}, &wrapperspb.StringValue{}
		if err := eviction("e", snapshot.Eviction{Intentions: i}).GetTypedConfig().UnmarshalTo(filter); err != nil {
			t.Fatal(err)
		}
		if err := filter.GetConfig().GetConfiguration().UnmarshalTo(value); err != nil {
			t.Fatal(err)
		}
		return value.GetValue()
	}
	if got, want := text(), "-spiffe://mesh.consul/ns/default/dc/*/svc/a\n+*\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for n := range evict.MaxRules + 1 {
		i.Rules = append(i.Rules, snapshot.IntentionRule{Source: strings.Repeat("s", n%50+1)})
	}
	if got := text(); got != "+*\n" {
		t.Errorf("of too many rules remains %.100q", got)
	}
}

func TestRightsThatAreMoreThanTheModuleTakesLeaveTheRulesAboutConnections(t *testing.T) {
	i := snapshot.Intentions{Key: snapshot.IntentionsKey{TrustDomain: "mesh.consul", Layer7: true}, Rules: []snapshot.IntentionRule{{Source: "gone"}}}
	i.DefaultAllow = true
	i.Rules = append(i.Rules, snapshot.IntentionRule{Source: "busy"})
	for n := range 600 { // each right without all that is denied before it
		action := []chain.IntentionAction{chain.IntentionDeny, chain.IntentionAllow}[n%2]
		i.Rules[1].Permissions = append(i.Rules[1].Permissions, &chain.IntentionPermission{
			Action: action, HTTP: &chain.IntentionHTTP{PathExact: fmt.Sprint("/", n)},
		})
	}
	const id = "spiffe://mesh.consul/ns/default/dc/*/svc/"
	if got, want := judgement(stays(i)), "-"+id+"gone\n+"+id+"busy\n+*\n"; got != want {
		t.Errorf("%.300q, want %q", got, want)
	}
}

func TestRightsShrinkWithWhatIsTakenFromThem(t *testing.T) {
	allow := &chain.IntentionPermission{Action: chain.IntentionAllow, HTTP: &chain.IntentionHTTP{PathPrefix: "/"}}
	deny := &chain.IntentionPermission{Action: chain.IntentionDeny, HTTP: &chain.IntentionHTTP{PathPrefix: "/admin"}}
	for name, c := range map[string]struct {
		permissions []*chain.IntentionPermission
		rest        bool
		want        []evict.Right
	}{
		"none":                     {nil, true, nil},
		"all":                      {[]*chain.IntentionPermission{allow}, false, []evict.Right{{Name: nameOf(allow)}}},
		"all but":                  {[]*chain.IntentionPermission{deny, allow}, false, []evict.Right{{Name: nameOf(allow), But: []string{nameOf(deny)}}}},
		"denied after":             {[]*chain.IntentionPermission{allow, deny}, false, []evict.Right{{Name: nameOf(allow)}}},
		"the rest where it allows": {[]*chain.IntentionPermission{deny}, true, []evict.Right{{Name: "rest", But: []string{nameOf(deny)}}}},
	} {
		if got := rights(c.permissions, c.rest); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
