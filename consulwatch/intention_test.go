package consulwatch

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// Under a default of allow a denial that is hidden from the token would let everyone in.
func TestAHiddenDenialStays(t *testing.T) {
	t.Parallel()
	for _, mode := range []Follow{FollowAuto, FollowPoll} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			c := testenv.StartConsul(t, testenv.WithACL(), testenv.WithHCL(`acl { default_policy = "allow" }`))
			c.RegisterService(testenv.Service{Name: "api", Port: 8080})
			c.WriteEntry(`{"Kind":"service-intentions","Name":"db","Sources":[{"Name":"web","Action":"deny"}]}`)
			c.WriteEntry(`{"Kind":"service-intentions","Name":"api","Sources":[{"Name":"web","Action":"allow"}]}`)
			const everything = `node_prefix "" { policy = "read" }`
			token := c.NewToken(everything)
			cfg := with(c, token)
			cfg.Follow = mode
			r := run(t, cfg)
			r.store.Need("test", apiHealth)
			r.ready("dc1")
			r.eventually(all(entryIs(chain.KindServiceIntentions, "db", facts.Present), entryIs(chain.KindServiceIntentions, "ghost", facts.Absent)))
			if mode == FollowAuto {
				testenv.Eventually(t, soon, func() error { return r.follows(apiHealth, ModeStreaming, c.RPCAddr()) })
			}
			denied := func(v facts.View) error {
				e, state := v.Entry(chain.KindServiceIntentions, "db")
				if e == nil {
					t.Errorf("the denial is %s", state)
				} else if s := e.(*chain.ServiceIntentions).Sources; len(s) != 1 || s[0].Action != chain.IntentionDeny {
					t.Errorf("the denial is %+v", s)
				}
				return nil
			}
			end := sync.OnceFunc(r.watchful(denied))
			defer end()

			cut := time.Now()
			c.SetPolicy(token, everything+` service "db" { policy = "deny" intentions = "deny" }`)
			wakes := 0
			r.eventually(func(v facts.View) error {
				if wakes++; mode == FollowPoll { // a query that waits is told nothing, so something is to happen
					c.WriteEntry(fmt.Sprintf(`{"Kind":"service-intentions","Name":"api","Sources":[{"Name":"web","Action":"allow"}],"Meta":{"n":"%d"}}`, wakes))
				}
				return entryIs(chain.KindServiceIntentions, "db", facts.Suspect)(v)
			})
			r.alarmedSince(cut, CodeHidden)
			r.throughout(all(denied, entryIs(chain.KindServiceIntentions, "api", facts.Present)))

			c.SetPolicy(token, everything)
			r.calm()
			r.eventually(entryIs(chain.KindServiceIntentions, "db", facts.Present))
			end()
			c.DeleteEntry("service-intentions", "db")
			r.eventually(entryIs(chain.KindServiceIntentions, "db", facts.Absent))
		})
	}
}
