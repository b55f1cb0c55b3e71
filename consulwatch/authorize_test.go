package consulwatch_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/catenary-mesh/catenary/consulwatch"
	"github.com/catenary-mesh/catenary/internal/identity"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

func authorizer(t *testing.T, cfg *api.Config) *consulwatch.Authorizer {
	t.Helper()
	a, err := consulwatch.NewAuthorizer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

func may(access identity.Access, services ...string) (list []identity.Question) {
	for _, s := range services {
		list = append(list, identity.Question{Service: s, Access: access})
	}
	return list
}

func TestWhatATokenMayIsWhatConsulSays(t *testing.T) {
	consul := testenv.StartConsul(t, testenv.WithACL())
	a := authorizer(t, consul.Config()) // which has the management token, and must not use it
	secret := consul.NewToken(`service "web" { policy = "write" } service_prefix "api" { policy = "read" }`)
	token := identity.NewToken(secret)
	ask := func(token identity.Token, want []bool, questions ...identity.Question) {
		t.Helper()
		got, err := a.Authorize(t.Context(), token, questions)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%v: %v, %v; want %v", questions, got, err, want)
		}
	}
	ask(token, []bool{true, false, false}, may(identity.Write, "web", "api", "Web")...)
	ask(token, []bool{true, true, false, false}, may(identity.Read, "web", "api-2", "db", "")...)
	ask(identity.Token{}, []bool{false}, may(identity.Read, "web")...)

	var many []string
	var want []bool
	for i := range 150 {
		many = append(many, fmt.Sprintf("%s-%d", []string{"api", "db"}[i%2], i))
		want = append(want, i%2 == 0)
	}
	ask(token, want, may(identity.Read, many...)...)
	ask(token, []bool{false}, identity.Question{Service: `a"],"Access":"\n`, Access: identity.Read})

	unknown := identity.NewToken("7d1ac0de-0000-4000-8000-000000000001")
	if _, err := a.Authorize(t.Context(), unknown, may(identity.Read, "web")); !errors.Is(err, identity.ErrUnknownToken) {
		t.Errorf("an unknown token: %v", err)
	}
	consul.SetPolicy(secret, "")
	ask(token, []bool{false}, may(identity.Write, "web")...)
	consul.DeleteToken(secret)
	if _, err := a.Authorize(t.Context(), token, may(identity.Write, "web")); !errors.Is(err, identity.ErrUnknownToken) {
		t.Errorf("a deleted token: %v", err)
	}
	consul.Stop()
	_, err := a.Authorize(t.Context(), token, may(identity.Write, "web"))
	if gone := (*identity.Unreachable)(nil); !errors.As(err, &gone) || strings.Contains(err.Error(), secret) {
		t.Errorf("without Consul: %v", err)
	}
}

func TestWithoutACLsThereIsNothingToAsk(t *testing.T) {
	a := authorizer(t, testenv.StartConsul(t).Config())
	for _, token := range []identity.Token{{}, identity.NewToken("any")} {
		if _, err := a.Authorize(t.Context(), token, may(identity.Write, "web")); !errors.Is(err, identity.ErrACLsOff) {
			t.Errorf("%v", err)
		}
	}
}

// agent is a Consul that answers by a script.
type agent struct {
	mu     sync.Mutex
	code   int
	body   string // empty denies everything that is asked
	leader string
	tokens []string
	sizes  []int
}

func (a *agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.URL.Path == "/v1/status/leader" {
		if a.leader == "" {
			http.Error(w, "No known Consul servers", http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(w, "%q", a.leader)
		return
	}
	a.tokens = append(a.tokens, r.Header.Get("X-Consul-Token"))
	var asked []map[string]any
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || r.Method != http.MethodPost {
		http.Error(w, fmt.Sprint(r.Method, err), http.StatusBadRequest)
		return
	}
	a.sizes = append(a.sizes, len(asked))
	w.WriteHeader(a.code)
	if a.body != "" {
		fmt.Fprint(w, a.body)
		return
	}
	for _, q := range asked {
		q["Allow"] = false
	}
	_ = json.NewEncoder(w).Encode(asked)
}

func TestADenialCountsOnlyWhileThereIsALeader(t *testing.T) {
	script := &agent{code: http.StatusOK}
	server := httptest.NewServer(script)
	defer server.Close()
	t.Setenv("CONSUL_HTTP_TOKEN", "our-own-token")
	a := authorizer(t, &api.Config{Address: server.URL})
	check := func(name string, change func(), unreachable bool) {
		t.Helper()
		script.mu.Lock()
		change()
		script.mu.Unlock()
		_, err := a.Authorize(t.Context(), identity.NewToken("clients-token"), may(identity.Read, make([]string, 130)...))
		if gone := (*identity.Unreachable)(nil); errors.As(err, &gone) != unreachable {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "clients-token") {
			t.Errorf("%s: %v", name, err)
		}
	}
	check("an agent without servers denies", func() {}, true)
	check("there is a leader", func() { script.leader = "127.0.0.1:8300" }, false)
	if !slices.Equal(script.sizes, []int{64, 64, 2, 64, 64, 2}) {
		t.Errorf("asked in calls of %v", script.sizes)
	}
	check("not found", func() { script.code, script.body = 403, "ACL not found" }, false)
	check("not found, without servers", func() { script.leader = "" }, true)
	check("limited", func() { script.code, script.body = 429, "rate limit" }, true)
	check("no leader", func() { script.code, script.body = 500, "No cluster leader" }, true)
	check("what is wrong with us", func() { script.code, script.body = 400, "no" }, false)
	check("not found as a page", func() { script.code, script.body = 404, "no" }, false)
	check("moved", func() { script.code, script.body = 307, "no" }, false)
	check("too few", func() { script.code, script.body = 200, "[]" }, false)
	check("no JSON", func() { script.code, script.body = 200, "<html>" }, false)
	for _, token := range script.tokens {
		if token != "clients-token" {
			t.Errorf("asked with the token %q", token)
		}
	}
	server.Close()
	check("gone", func() {}, true)
}
