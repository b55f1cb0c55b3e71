//go:build e2e

package mesh_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// revocation is how long a stream may outlive its right.
const revocation = time.Minute

// secrets is what nothing may tell: tokens, and the keys of certificates.
type secrets struct {
	t    *testing.T
	list map[string]string // by what it is
}

// token adds a token, as it is and as it looks in a message that is shown as JSON.
func (s *secrets) token(what, secret string) {
	if secret != "" {
		s.list[what] = secret
		s.list[what+" as base64"] = base64.StdEncoding.EncodeToString([]byte(secret))
	}
}

// key adds the key that a client was given.
func (s *secrets) key(what string, got *reply) {
	s.t.Helper()
	lines := strings.Split(string(text(got.secrets["leaf"].GetTlsCertificate().GetPrivateKey())), "\n")
	if len(lines) < 3 || !strings.Contains(lines[0], "PRIVATE KEY") {
		s.t.Fatalf("%s is none", what)
	}
	s.list[what] = lines[1]
}

// in checks that something tells no secret, and shows no PEM at all.
func (s *secrets) in(where, told string) {
	s.t.Helper()
	s.tells(where, told)
	pem := base64.StdEncoding.EncodeToString([]byte("-----BEGIN"))
	for _, mark := range []string{"-----BEGIN", pem[:len(pem)-2]} {
		if i := strings.Index(told, mark); i >= 0 {
			s.t.Errorf("%s shows PEM: %.200q", where, told[max(i-80, 0):])
		}
	}
}

// tells checks that something tells no secret.
func (s *secrets) tells(where, told string) {
	s.t.Helper()
	if told == "" {
		s.t.Errorf("%s is empty", where)
	}
	for what, secret := range s.list {
		if strings.Contains(told, secret) {
			s.t.Errorf("%s tells %s", where, what)
		}
	}
	if strings.Contains(told, "PRIVATE KEY") {
		s.t.Errorf("%s shows a key", where)
	}
}

// paths is everything that is to be had of the HTTP side.
func paths() []string {
	return []string{
		"/healthz", "/readyz", "/metrics", "/nothing",
		"/api/v1/proxies", "/api/v1/proxies/a-sidecar-proxy", "/api/v1/proxies/nobody", "/api/v1/problems", "/api/v1/watches",
		"/api/v1/chains/a", "/api/v1/endpoints/a", "/api/v1/explanations/a", "/v1/discovery-chain/a",
		"/api/v1/resources/a-sidecar-proxy", "/api/v1/explain/a?kind=mesh&path=/",
		"/api/v1/health", "/api/v1/health/a", "/api/v1/checkers",
		"/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/symbol", "/debug/pprof/profile?seconds=1", "/debug/pprof/trace?seconds=1",
		"/debug/pprof/goroutine?debug=2", "/debug/pprof/heap?debug=1", "/debug/pprof/allocs", "/debug/pprof/block?debug=1",
		"/debug/pprof/mutex?debug=1", "/debug/pprof/threadcreate?debug=1",
	}
}

// Paths that come later are looked at, too.
func TestNoPathIsForgotten(t *testing.T) {
	raw, err := os.ReadFile("../../internal/admin/routes.go")
	if err != nil {
		t.Fatal(err)
	}
	routes := regexp.MustCompile(`Handle(?:Func)?\("([^"{]+)`).FindAllStringSubmatch(string(raw), -1)
	if len(routes) < 10 {
		t.Fatalf("there are only %d routes", len(routes))
	}
	for _, route := range routes {
		if !slices.ContainsFunc(paths(), func(path string) bool { return strings.HasPrefix(path, route[1]) }) {
			t.Errorf("%s is not among the paths that are looked at", route[1])
		}
	}
}

// verbs is everything that the command line tells of a mesh with a service a.
func (m *mesh) verbs() [][]string {
	admin, consul := "--admin-addr="+m.catenary.AdminAddr, "--consul-addr=http://"+m.consul.HTTPAddr()
	var list [][]string
	for _, format := range []string{"table", "json"} {
		list = append(list, []string{"proxies", "-o", format, admin}, []string{"watches", "-o", format, admin}, []string{"endpoints", "a", "-o", format, admin})
	}
	list = append(list, []string{"proxies", "a-sidecar-proxy", admin})
	for _, format := range []string{"json", "yaml", "table", "tree", "dot"} {
		list = append(list, []string{"dump", "a", "-o", format, consul}, []string{"dump", "a", "-o", format, admin})
	}
	list = append(list, []string{"explain", "a", "--mesh", "--path", "/", consul}, []string{"explain", "a", "--mesh", "-o", "json", admin})
	return append(list, []string{"translate", "a-sidecar-proxy", "-o", "json", consul}, []string{"translate", "a-sidecar-proxy", "-o", "yaml", consul})
}

func TestNothingTellsATokenOrAKey(t *testing.T) {
	t.Parallel()
	m := newMesh(t, []testenv.ConsulOption{testenv.WithACL()}, two()...)
	own := m.consul.NewToken(`service_prefix "" { policy = "write" } node_prefix "" { policy = "read" }`)
	file := filepath.Join(t.TempDir(), "token")
	give := func(token string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	give(own)
	operator := filepath.Join(t.TempDir(), "operator")
	if err := os.WriteFile(operator, []byte(operatorToken), 0o600); err != nil {
		t.Fatal(err)
	}
	m.serve([]string{"CONSUL_HTTP_TOKEN_FILE=" + file}, "--consul-grpc-addr", m.consul.GRPCAddr(), "--log-level", "trace", "--admin-token-file", operator)
	m.sidecars()
	m.directions(m.flows)

	never := &secrets{t: t, list: map[string]string{}}
	never.token("the token of Consul's operator", m.consul.Token())
	never.token("the token of catenary", own)
	never.token("the token of catenary's operator", operatorToken)
	for _, of := range m.members {
		never.token("the token of "+of.name, of.token)
	}
	impostors := m.impostors()
	for _, p := range impostors {
		never.token("the token of "+p.name, p.token)
	}
	told := append(fruitless(t, impostors), m.asked(never, operatorToken+"x"))
	told = append(told, m.revoke(never)...)

	// Everything that can be renewed, and then no rights for a while.
	before := serials(t, m.members...)
	m.catenary.Hangup()
	renewed(t, before)
	never.key("a key after the renewal", m.sidecarOf("a", m.members[0].token).ask(t.Context(), adsDelta, []string{"leaf", "roots"}))
	before = serials(t, m.members...)
	m.consul.RotateRoot()
	renewed(t, before)
	never.key("a key after the rotation", m.sidecarOf("a", m.members[0].token).ask(t.Context(), adsDelta, []string{"leaf", "roots"}))
	give(unknownToken)
	m.catenary.Hangup() // which has certificates ordered by it
	for _, line := range []string{"Consul cannot be read", "no certificates are issued now"} {
		testenv.Eventually(t, time.Minute, func() error {
			if !strings.Contains(m.catenary.Log(), line) {
				return fmt.Errorf("the log does not say that %s", line)
			}
			return nil
		})
	}
	m.look(never, "while catenary's token is unknown: ")
	give(own)
	testenv.Eventually(t, time.Minute, m.catenary.Ready)
	m.directions(m.flows)

	m.look(never, "")
	if got := m.asked(never, operatorToken); !strings.Contains(got, "BEGIN CERTIFICATE") {
		t.Errorf("CSDS shows no certificates, which are no secret: %.500q", got)
	}
	never.in("the statuses of streams", strings.Join(told, "\n"))
}

// operatorToken is the one that may ask catenary what clients are served.
const operatorToken = "0bec7a0e-0000-4000-8000-000000000002"

// asked returns what CSDS answers to a token, or the status.
func (m *mesh) asked(never *secrets, token string) string {
	m.t.Helper()
	conn, err := grpc.NewClient(m.catenary.GRPCAddr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		m.t.Fatal(err)
	}
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(m.t.Context(), "authorization", "Bearer "+token)
	got, err := statusv3.NewClientStatusDiscoveryServiceClient(conn).FetchClientStatus(ctx, &statusv3.ClientStatusRequest{})
	told := fmt.Sprintf("%+v", err)
	if err == nil {
		raw, err := proto.Marshal(got)
		if err != nil {
			m.t.Fatal(err)
		}
		told = string(raw)
	}
	never.tells("CSDS", told)
	return told
}

// look looks everywhere.
func (m *mesh) look(never *secrets, when string) {
	m.t.Helper()
	for _, path := range paths() {
		_, body, err := testenv.Get("http://"+m.catenary.AdminAddr+path, nil)
		if err != nil {
			m.t.Errorf("%s: %v", path, err)
			continue
		}
		never.in(when+path, body)
	}
	never.in(when+"the log", m.catenary.Log())
	for _, args := range m.verbs() {
		got := testenv.Run(m.t, []string{"CONSUL_HTTP_TOKEN=" + m.consul.Token()}, args...)
		never.in(when+strings.Join(args, " "), got.Stdout+got.Stderr)
		if when == "" && got.Code > 1 {
			m.t.Errorf("%v: exit %d: %s", args, got.Code, got.Stderr)
		}
	}
}

// revoke takes the token of connected clients away: their streams end, and they are given nothing more. It
// returns what they are told.
func (m *mesh) revoke(never *secrets) []string {
	m.t.Helper()
	token := m.tokenOf("a")
	never.token("a token that is revoked", token)
	streams := ways()[:4] // all but the one that ends by itself
	replies := make([]*reply, len(streams))
	var served, ended sync.WaitGroup
	served.Add(len(streams))
	for i, by := range streams {
		c := m.sidecarOf("a", token)
		c.waits, c.listens, c.has = revocation, revocation, sync.OnceFunc(served.Done)
		ended.Go(func() {
			replies[i] = c.ask(m.t.Context(), by, []string{"leaf", "roots"})
			c.has() // if it was not
		})
	}
	served.Wait()
	m.consul.DeleteToken(token)
	ended.Wait()
	var told []string
	for i, got := range replies {
		if got.given != 2 || status.Code(got.err) != codes.Unauthenticated {
			m.t.Errorf("%s: %d secrets, and it ends with %v", streams[i], got.given, got.err)
			continue
		}
		never.key("the key of a client whose token is revoked", got)
		told = append(told, fmt.Sprintf("%+v", got.err))
	}
	return append(told, fruitless(m.t, []pretence{
		{"a token that was revoked", m.sidecarOf("a", token), codes.Unauthenticated, "does not know the token"},
	})...)
}
