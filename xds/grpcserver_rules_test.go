package xds_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/snapshot"
)

// callers and methods are who calls what, under each list of intentions.
var (
	callers = []string{"api", "db"}
	methods = []string{"/shop.Shop/Get", "/shop.Shop/Put", "/bank.Bank/Get"}
)

// randomPermission is one about methods.
func randomPermission(r *rand.Rand) *chain.IntentionPermission {
	http := []*chain.IntentionHTTP{
		{PathExact: "/shop.Shop/Get"},
		{PathPrefix: "/shop."},
		{PathRegex: "/shop.Shop/Put|/bank.Bank/Get"},
		{PathRegex: ".*/Get"},
		{Methods: []string{"GET", "POST"}, PathPrefix: "/bank."},
		{Methods: []string{"GET"}},
		{Header: []chain.IntentionHeader{{Name: "content-type", Prefix: "application/grpc"}}, PathPrefix: "/shop.Shop/P"},
		{Header: []chain.IntentionHeader{{Name: "X-Absent", Present: true}}},
		{Header: []chain.IntentionHeader{{Name: "X-Absent", Present: true, Invert: true}}, PathExact: "/bank.Bank/Get"},
	}
	return &chain.IntentionPermission{Action: randomAction(r), HTTP: http[r.IntN(len(http))]}
}

func randomAction(r *rand.Rand) chain.IntentionAction {
	return []chain.IntentionAction{chain.IntentionAllow, chain.IntentionDeny}[r.IntN(2)]
}

// randomSources are intentions about callers and everyone, in Consul's order of precedence.
func randomSources(r *rand.Rand) []*chain.SourceIntention {
	var list []*chain.SourceIntention
	for i, name := range []string{"api", "db", chain.WildcardName} {
		if r.IntN(3) == 0 {
			continue
		}
		s := &chain.SourceIntention{Name: name, Precedence: 9 - i/2}
		if r.IntN(2) == 0 {
			s.Action = randomAction(r)
		}
		for s.Action == "" && (len(s.Permissions) == 0 || r.IntN(2) == 0) {
			s.Permissions = append(s.Permissions, randomPermission(r))
		}
		list = append(list, s)
	}
	return list
}

// permitted is what intentions say of a call: the one of the source counts, else that of everyone.
func permitted(i snapshot.Intentions, caller, method string) bool {
	for _, rule := range i.Rules {
		if rule.Source != caller && (rule.Source != chain.WildcardName || slices.Contains(rule.Except, caller)) {
			continue
		}
		if len(rule.Permissions) == 0 {
			return !i.DefaultAllow
		}
		for _, p := range rule.Permissions {
			if isAbout(p.HTTP, method) {
				return p.Action == chain.IntentionAllow
			}
		}
		return i.DefaultAllow
	}
	return i.DefaultAllow
}

// isAbout reports whether a permission is about a call of a method, which has no header of its own.
func isAbout(h *chain.IntentionHTTP, method string) bool {
	for _, header := range h.Header {
		if present := header.Name != "X-Absent"; present == header.Invert {
			return false
		}
	}
	return (h.PathExact == "" || h.PathExact == method) && strings.HasPrefix(method, h.PathPrefix) &&
		(h.PathRegex == "" || regexp.MustCompile("^(?:"+h.PathRegex+")$").MatchString(method)) &&
		(len(h.Methods) == 0 || slices.Contains(h.Methods, "POST"))
}

// TestAGRPCServerJudgesAsIntentionsSay changes the intentions of a server over and over, and has everyone call
// everything.
func TestAGRPCServerJudgesAsIntentionsSay(t *testing.T) {
	m := startMesh(t)
	m.entries(chain.KindServiceDefaults, &chain.ServiceDefaults{Header: chain.Header{Name: "web"}, Protocol: "grpc"})
	s := testenv.StartXDSServer(t, m.grpcBootstrap(m.certs()), "v1", true)
	serving(t, s)
	r := rand.New(rand.NewPCG(1, 2))
	both := map[bool]int{}
	for range 40 {
		m.store.Commit(func(tx *facts.Tx) { tx.DefaultIntention(r.IntN(2) == 0) })
		sources := randomSources(r)
		m.intend(sources...)
		made, ok := snapshot.IntentionsKey{Service: "web", TrustDomain: "catenary.local", Layer7: true}.Make(m.store.View())
		if !ok {
			t.Fatal("the intentions are not known")
		}
		testenv.Eventually(t, 10*time.Second, func() error {
			for _, caller := range callers {
				for _, method := range methods {
					want := codes.OK
					if !permitted(made, caller, method) {
						want = codes.PermissionDenied
					}
					if _, err := m.callAs(caller, s.Port, method); status.Code(err) != want {
						return fmt.Errorf("%s calls %s: %w, want %s by %+v", caller, method, err, want, made)
					}
				}
			}
			return nil
		})
		for _, caller := range callers {
			for _, method := range methods {
				both[permitted(made, caller, method)]++
			}
		}
	}
	if both[true] < 40 || both[false] < 40 {
		t.Errorf("%v calls were allowed and denied: too one-sided to say much", both)
	}
	m.noNack()
}
