package consulwatch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// eachWay runs a test for what is followed by events, and by queries alone.
func eachWay(t *testing.T, test func(t *testing.T, how Follow)) {
	t.Parallel()
	for _, how := range []Follow{FollowStream, FollowPoll} {
		t.Run(string(how), func(t *testing.T) {
			t.Parallel()
			test(t, how)
		})
	}
}

// action checks what the intentions of a destination say of a source; empty means that they are absent.
func action(destination, source string, want chain.IntentionAction) func(facts.View) error {
	return func(v facts.View) error {
		e, state := v.Entry(chain.KindServiceIntentions, destination)
		if want == "" {
			return entryIs(chain.KindServiceIntentions, destination, facts.Absent)(v)
		}
		intentions, ok := e.(*chain.ServiceIntentions)
		if !ok {
			return fmt.Errorf("the intentions of %s are %s", destination, state)
		}
		for _, s := range intentions.Sources {
			if s.Name == source && s.Action == want {
				return nil
			}
		}
		return fmt.Errorf("the intentions of %s do not %s %s: %+v", destination, want, source, intentions.Sources)
	}
}

func TestIntentionsAndTheMeshAreFollowed(t *testing.T) {
	eachWay(t, func(t *testing.T, how Follow) {
		c := testenv.StartConsul(t)
		c.WriteEntry(`{"Kind":"service-intentions","Name":"*","Sources":[{"Name":"*","Action":"deny"}]}`)
		cfg := with(c, "")
		cfg.Follow = how
		r := run(t, cfg)
		r.ready("dc1")
		r.eventually(all(action("*", "*", chain.IntentionDeny), action("api", "", ""), entryIs(chain.KindMesh, chain.MeshName, facts.Absent)))
		c.WriteEntry(`{"Kind":"service-intentions","Name":"api","Sources":[{"Name":"web","Action":"allow"}]}`)
		c.WriteEntry(`{"Kind":"mesh","TLS":{"Incoming":{"TLSMinVersion":"TLSv1_3"}}}`)
		r.eventually(all(action("API", "web", chain.IntentionAllow), func(v facts.View) error {
			m, _ := v.Entry(chain.KindMesh, chain.MeshName)
			if m, ok := m.(*chain.Mesh); !ok || m.TLS.Incoming.TLSMinVersion != "TLSv1_3" {
				return fmt.Errorf("the mesh entry is %+v", m)
			}
			return nil
		}))
		c.WriteEntry(`{"Kind":"service-intentions","Name":"api","Sources":[{"Name":"web","Action":"deny"}]}`)
		r.eventually(action("api", "web", chain.IntentionDeny))
		c.DeleteEntry("service-intentions", "api")
		c.DeleteEntry("mesh", "mesh")
		r.eventually(all(action("api", "", ""), entryIs(chain.KindMesh, chain.MeshName, facts.Absent)))
		if list := r.source.Problems(); len(list) > 0 {
			t.Errorf("%v", list)
		}
	})
}

// Where everything is allowed by default, an intention that is hidden would let through what it denies.
func TestAHiddenIntentionIsKept(t *testing.T) {
	eachWay(t, func(t *testing.T, how Follow) {
		c := testenv.StartConsul(t, testenv.WithACL(), testenv.WithHCL(`default_intention_policy = "allow"`))
		c.WriteEntry(`{"Kind":"service-intentions","Name":"api","Sources":[{"Name":"web","Action":"deny"}]}`)
		c.WriteEntry(`{"Kind":"service-intentions","Name":"db","Sources":[{"Name":"web","Action":"deny"}]}`)
		c.WriteEntry(`{"Kind":"mesh"}`)
		token := c.NewToken(readAll + ` agent_prefix "" { policy = "read" }`)
		cfg := with(c, token)
		cfg.Follow, cfg.Limits = how, impatient()
		cfg.Limits.Wait = time.Second // a query does not end for a change that it may not see
		r := run(t, cfg)
		r.ready("dc1")
		denied := all(action("api", "web", chain.IntentionDeny), action("db", "web", chain.IntentionDeny))
		r.eventually(all(denied, byDefault(true), entryIs(chain.KindMesh, chain.MeshName, facts.Present)))
		for name, rules := range map[string]string{
			"intentions":     `service_prefix "" { policy = "read", intentions = "deny" } node_prefix "" { policy = "read" }`,
			"one":            readAll + ` service "api" { policy = "read", intentions = "deny" }`,
			"everything":     ``,
			"and agent:read": readAll + ` service "api" { policy = "deny" } agent_prefix "" { policy = "deny" }`,
		} {
			t.Run(name, func(t *testing.T) {
				end := r.watchful(all(denied, byDefault(true)))
				cut := time.Now()
				c.SetPolicy(token, rules)
				wakes := 0
				r.eventually(func(v facts.View) error { // a query that waits answers with the rights it began with
					wakes++
					c.WriteEntry(fmt.Sprintf(`{"Kind":"service-intentions","Name":"mark","Sources":[{"Name":"web","Action":"deny"}],"Meta":{"n":"%d"}}`, wakes))
					return entryIs(chain.KindServiceIntentions, "api", facts.Suspect)(v)
				})
				r.alarmedSince(cut, CodeHidden)
				end()
				c.SetPolicy(token, readAll+` agent_prefix "" { policy = "read" }`)
				r.calm()
				r.eventually(entryIs(chain.KindServiceIntentions, "api", facts.Present))
				c.DeleteEntry("service-intentions", "mark")
				r.eventually(action("mark", "", ""))
			})
		}
		c.DeleteEntry("service-intentions", "api")
		r.eventually(action("api", "", ""))
	})
}

// byDefault checks what holds without intentions.
func byDefault(allow bool) func(facts.View) error {
	return func(v facts.View) error {
		if got, state := v.DefaultIntention(); state != facts.Present || got != allow {
			return fmt.Errorf("the default is %t, %s (%s)", got, state, v.Topic(facts.DefaultIntention()).Failure)
		}
		return nil
	}
}

func TestWhatHoldsWithoutIntentionsIsWhatTheAgentSays(t *testing.T) {
	t.Parallel()
	const (
		aclsAllow = `acl { default_policy = "allow" }`
		denied    = `default_intention_policy = "deny"`
	)
	for name, tt := range map[string]struct {
		acls  bool // on, with a default of deny
		hcl   []string
		rules string // of the token; empty means the one that may do everything
		set   string
		want  bool
		fails string
	}{
		"ACLs off":                        {want: true},
		"ACLs off, but denied":            {hcl: []string{denied}},
		"ACLs deny":                       {acls: true},
		"ACLs deny, and nobody may look":  {acls: true, rules: readAll},
		"ACLs deny, but allowed":          {acls: true, hcl: []string{`default_intention_policy = "allow"`}, want: true},
		"ACLs allow":                      {acls: true, hcl: []string{aclsAllow}, want: true},
		"ACLs allow, but denied":          {acls: true, hcl: []string{aclsAllow, denied}, rules: readAll},
		"ACLs allow, and nobody may look": {acls: true, hcl: []string{aclsAllow, denied}, rules: `agent_prefix "" { policy = "deny" }`, fails: "agent:read"},
		"the operator says deny":          {set: "deny"},
		"the operator says allow":         {acls: true, set: "allow", want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var opts []testenv.ConsulOption
			if tt.acls {
				opts = append(opts, testenv.WithACL())
			}
			for _, hcl := range tt.hcl {
				opts = append(opts, testenv.WithHCL(hcl))
			}
			c := testenv.StartConsul(t, opts...)
			token := c.Token()
			if tt.rules != "" {
				token = c.NewToken(tt.rules)
			}
			cfg := with(c, token)
			cfg.Follow, cfg.DefaultIntentions = FollowPoll, tt.set
			r := run(t, cfg)
			if tt.fails == "" {
				r.eventually(byDefault(tt.want))
				return
			}
			r.eventually(func(v facts.View) error {
				if f := v.Topic(facts.DefaultIntention()).Failure; !strings.Contains(f, tt.fails) {
					return fmt.Errorf("the failure is %q", f)
				}
				return nil
			})
			if _, state := r.store.View().DefaultIntention(); state != facts.Unknown {
				t.Errorf("the default is %s", state)
			}
		})
	}
	cfg := Config{DefaultIntentions: "refuse"}
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "allow or deny") {
		t.Errorf("%v", err)
	}
}

// An agent that is started with another configuration is asked again.
func TestAnotherDefaultIsSeenWhenTheAgentIsBack(t *testing.T) {
	t.Parallel()
	c := testenv.StartConsul(t, testenv.WithHCL(`default_intention_policy = "deny"`))
	r := run(t, with(c, ""))
	r.eventually(byDefault(false))
	c.Stop()
	r.eventually(failing(facts.CARoots(), true))
	testenv.WithHCL(`default_intention_policy = "allow"`)(c)
	end := r.watchful(func(v facts.View) error {
		if _, state := v.DefaultIntention(); state != facts.Present {
			return fmt.Errorf("the default is %s", state)
		}
		return nil
	})
	c.Restart()
	r.eventually(byDefault(true))
	end()
}

func TestRootsAreFollowedThroughARotation(t *testing.T) {
	t.Parallel()
	c := testenv.StartConsul(t)
	r := run(t, with(c, ""))
	var first facts.Roots
	r.eventually(func(v facts.View) error {
		var state facts.State
		if first, state = v.Roots(); state != facts.Present || len(first.List) != 1 || !first.List[0].Active {
			return fmt.Errorf("the roots are %s: %+v", state, first)
		}
		return nil
	})
	ca, _, err := c.Client().Connect().CARoots(nil)
	if err != nil || first.TrustDomain != ca.TrustDomain || first.List[0].Cert != ca.Roots[0].RootCertPEM {
		t.Errorf("%+v, %v", first, err)
	}
	c.CLI("", "connect", "ca", "set-config", "-config-file", rotation(t))
	r.eventually(func(v facts.View) error {
		now, _ := v.Roots()
		old := slices.IndexFunc(now.List, func(root facts.Root) bool { return root.ID == first.List[0].ID })
		if len(now.List) != 2 || old < 0 || now.List[old].Active || !now.List[1-old].Active || now.TrustDomain != first.TrustDomain {
			return fmt.Errorf("the roots are %+v", now)
		}
		return nil
	})
	rotated, _ := r.store.View().Roots()
	c.Stop()
	r.eventually(failing(facts.CARoots(), true))
	if kept, state := r.store.View().Roots(); state != facts.Present || len(kept.List) != len(rotated.List) {
		t.Errorf("without Consul the roots are %s: %+v", state, kept)
	}
}

// rotation writes a configuration of the certificate authority that has another key.
func rotation(t *testing.T) string {
	t.Helper()
	file := t.TempDir() + "/ca.json"
	writeFile(t, file, `{"Provider":"consul","Config":{"LeafCertTTL":"72h","PrivateKeyType":"ec","PrivateKeyBits":384}}`)
	return file
}

// A Consul without a mesh has no roots, and that is no fault.
func TestAConsulWithoutAMeshHasNoRoots(t *testing.T) {
	t.Parallel()
	c := testenv.StartConsul(t, testenv.WithoutMesh())
	r := run(t, with(c, ""))
	r.ready("dc1")
	r.eventually(func(v facts.View) error {
		if s := v.Topic(facts.CARoots()); !s.Off || !strings.Contains(s.Failure, "connect.enabled") {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	r.eventually(byDefault(true))
	if list := r.source.Problems(); len(list) > 0 {
		t.Errorf("%v", list)
	}
}
