package mesh_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// unknownToken is one that nobody has made.
const unknownToken = "7d1ac0de-0000-4000-8000-000000000001"

// impostors are clients that do not have the token of the service that they are after, or are not its
// sidecar, and what each is told.
func (m *mesh) impostors() []pretence {
	m.t.Helper()
	a, b := m.members[0], m.members[1]
	capital := m.tokenOf("A")
	reads := m.consul.NewToken(`service_prefix "" { policy = "read" } node_prefix "" { policy = "read" }`)
	as := func(id, cluster, token string) *client {
		c := m.sidecarOf("a", token)
		c.node = nodeOf(id, cluster)
		return c
	}
	plain := m.sidecarOf("a", a.token)
	plain.node = declared(m.t, "a")
	another := m.sidecarOf("a", a.token)
	another.node = declared(m.t, "b")
	return []pretence{
		{"no token", m.sidecarOf("a", ""), codes.Unauthenticated, "no token"},
		{"an unknown token", m.sidecarOf("a", unknownToken), codes.Unauthenticated, "does not know the token"},
		{"a token too long to be one", m.sidecarOf("a", strings.Repeat("x", 2000)), codes.Unauthenticated, "no token"},
		{"another's token", m.sidecarOf("a", b.token), codes.PermissionDenied, `lacks service:write on "a"`},
		{"a token for another", m.sidecarOf("b", a.token), codes.PermissionDenied, `lacks service:write on "b"`},
		{"a token that may only read", m.sidecarOf("a", reads), codes.PermissionDenied, `lacks service:write on "a"`},
		{"a token for other letters", m.sidecarOf("a", capital), codes.PermissionDenied, `lacks service:write on "a"`},
		{"a token for other letters, and these", as("a-sidecar-proxy", "A", capital), codes.PermissionDenied, `lacks service:write on "A"`},
		{"other letters", as("a-sidecar-proxy", "A", a.token), codes.OK, ""},
		{"other letters of the sidecar", as("A-sidecar-proxy", "a", a.token), codes.OK, ""},
		{"the sidecar of another", as("b-sidecar-proxy", "a", a.token), codes.OK, ""},
		{"no service", as("a-sidecar-proxy", "", a.token), codes.OK, ""},
		{"no sidecar", plain, codes.OK, ""},
		{"no sidecar, and of another", another, codes.PermissionDenied, `lacks service:write on "b"`},
	}
}

func TestWithoutItsTokenASidecarGetsNothing(t *testing.T) {
	t.Parallel()
	m := newMesh(t, []testenv.ConsulOption{testenv.WithACL()}, two()...)
	m.serve(m.consul.Env(), "--consul-grpc-addr", m.consul.GRPCAddr(), "--log-level", "trace")
	m.sidecars()
	m.directions(m.flows)
	a, b := m.members[0], m.members[1]
	list := m.impostors()
	fruitless(t, list)

	boot := m.bootstrap(a, "a")
	if !bytes.Contains(boot, []byte(a.token)) {
		t.Fatal("the bootstrap has no token")
	}
	for _, token := range []string{"", unknownToken, b.token} {
		refused(t, bytes.ReplaceAll(boot, []byte(a.token), []byte(token)))
	}
	if has := dynamic(a.envoy); len(has) != 3 {
		t.Errorf("an Envoy that is served has only %s", has)
	}
	m.directions(m.flows)
	m.tells(list)
}

// refused checks that an Envoy is not let in, and has nothing but what it was started with.
func refused(t *testing.T, boot []byte) {
	t.Helper()
	envoy := testenv.StartEnvoy(t, boot)
	defer envoy.Stop()
	testenv.Eventually(t, patience, func() error {
		if n := envoy.Stats()["cluster.local_agent.upstream_rq_total"]; n < 2 {
			return fmt.Errorf("%d streams were opened", n)
		}
		return nil
	})
	if has := dynamic(envoy); len(has) > 0 {
		t.Errorf("an Envoy that is refused has %s", has)
	}
}

// dynamic returns the kinds of what an Envoy was given by xDS.
func dynamic(envoy *testenv.Envoy) (has []string) {
	dump := envoy.ConfigDump()
	for _, kind := range []string{"dynamic_listeners", "dynamic_active_clusters", "dynamic_active_secrets"} {
		if bytes.Contains(dump, []byte(`"`+kind+`"`)) {
			has = append(has, kind)
		}
	}
	return has
}

// tells checks that the log has a line for each client that was refused, and no token.
func (m *mesh) tells(list []pretence) {
	m.t.Helper()
	log := m.catenary.Log()
	for _, p := range list {
		if p.code == codes.OK {
			continue
		}
		says := strings.ReplaceAll(p.says, `"`, `\"`)
		found := false
		for line := range strings.Lines(log) {
			found = found || strings.Contains(line, "a client was refused") && strings.Contains(line, "proxy="+p.node.GetId()) &&
				strings.Contains(line, "address=127.0.0.1:") && strings.Contains(line, "status="+p.code.String()) && strings.Contains(line, says)
		}
		if !found {
			m.t.Errorf("no line of the log tells of %s (%s, %s)", p.name, p.code, p.says)
		}
		if p.token != "" && strings.Contains(log, p.token) {
			m.t.Errorf("the log has the token of %s", p.name)
		}
	}
	for _, of := range m.members {
		if strings.Contains(log, of.token) {
			m.t.Errorf("the log has the token of %s", of.name)
		}
	}
}
