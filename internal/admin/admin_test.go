package admin_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/admin"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/xds"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// config is a control plane in which nothing is wrong and nobody is connected.
func config() admin.Config {
	return admin.Config{
		Ready:     func() (bool, string) { return true, "" },
		Proxies:   func() []admin.Proxy { return nil },
		Chain:     func(s string) admin.Chain { return admin.Chain{Chain: &chain.Chain{ServiceName: s}} },
		Discovery: admin.NewDiscovery(facts.New(), func() (admin.Place, string) { return admin.Place{}, "not yet" }),
		Endpoints: func(_ context.Context, s string) admin.Endpoints { return admin.Endpoints{Service: s} },
		Problems:  func() []admin.Problem { return nil },
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "catenary_plans_total 0\n")
		}),
	}
}

func do(h http.Handler, method, path string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, http.NoBody))
	return w.Code, w.Body.String()
}

func TestAnswers(t *testing.T) {
	two := []admin.Proxy{{ID: "web-1", State: xds.StateSynced}, {ID: "ns/web", State: xds.StateNacked}}
	plain := config()
	busy := config()
	busy.Proxies = func() []admin.Proxy { return two }
	busy.Ready = func() (bool, string) { return false, "services/dc1: not read yet" }
	busy.Problems = func() []admin.Problem {
		return []admin.Problem{{Problem: chain.Problem{Code: "CAT1", Message: "no"}, Chain: "api"}}
	}
	busy.Chain = func(string) admin.Chain {
		return admin.Chain{Problems: []chain.Problem{{Code: "CAT1", Message: "no"}}}
	}
	debug := config()
	debug.Debug = true
	for _, tt := range []struct {
		name, method, path string
		config             admin.Config
		status             int
		want               string
	}{
		{"alive", "GET", "/healthz", busy, 200, "ok"},
		{"ready", "GET", "/readyz", plain, 200, "ready"},
		{"not-ready-says-why", "GET", "/readyz", busy, 503, "not ready: services/dc1: not read yet"},
		{"metrics", "GET", "/metrics", plain, 200, "catenary_plans_total 0"},
		{"no-proxies-is-an-empty-list", "GET", "/api/v1/proxies", plain, 200, "[]"},
		{"proxies", "GET", "/api/v1/proxies", busy, 200, `"web-1"`},
		{"proxy", "GET", "/api/v1/proxies/web-1", busy, 200, `"SYNCED"`},
		{"proxy-with-slash", "GET", "/api/v1/proxies/ns/web", busy, 200, `"NACKED"`},
		{"no-such-proxy", "GET", "/api/v1/proxies/nobody", busy, 404, `{"error":"noproxywiththeIDnobodyisconnected"}`},
		{"chain", "GET", "/api/v1/chains/api", plain, 200, `{"Chain":{"ServiceName":"api"`},
		{"chain-without-problems", "GET", "/api/v1/chains/api", plain, 200, `"Problems":[]`},
		{"chain-that-never-compiled", "GET", "/api/v1/chains/api", busy, 200, `{"Chain":null,"Problems":[{"Code":"CAT1"`},
		{"endpoints", "GET", "/api/v1/endpoints/api", plain, 200, `"instances":[]`},
		{"problems", "GET", "/api/v1/problems", busy, 200, `[{"Code":"CAT1"`},
		{"no-problems-is-an-empty-list", "GET", "/api/v1/problems", plain, 200, "[]"},
		{"nothing-there", "GET", "/api/v2", plain, 404, `{"error":"thereisnothingat/api/v2"}`},
		{"only-get", "POST", "/api/v1/proxies", plain, 405, `{"error":`},
		{"no-profiler", "GET", "/debug/pprof/", plain, 404, `{"error":`},
		{"profiler", "GET", "/debug/pprof/", debug, 200, "goroutine"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, body := do(admin.New(tt.config), tt.method, tt.path)
			squeezed := strings.Join(strings.Fields(body), "")
			if status != tt.status || !strings.Contains(body, tt.want) && !strings.Contains(squeezed, tt.want) {
				t.Errorf("%s %s: %d %s; want %d %s", tt.method, tt.path, status, body, tt.status, tt.want)
			}
		})
	}
}

func TestDrainingIsNotReady(t *testing.T) {
	s := admin.New(config())
	s.Drain()
	status, body := do(s, "GET", "/readyz")
	if status != http.StatusServiceUnavailable || !strings.Contains(body, "draining") {
		t.Errorf("a draining server answers %d %q", status, body)
	}
	if status, _ := do(s, "GET", "/healthz"); status != http.StatusOK {
		t.Errorf("a draining server is not alive: %d", status)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- admin.New(config()).Run(ctx, l) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + l.Addr().String() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestRunSaysWhyItCannotServe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if err := admin.New(config()).Run(t.Context(), l); err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("Run on a closed listener: %v", err)
	}
}

func TestDescribe(t *testing.T) {
	store := facts.New()
	e := admin.Describe(store.View(), "dc1", "api")
	if e.State != "unknown" || !strings.Contains(e.Reason, "not read yet") {
		t.Errorf("a service nobody follows: %+v", e)
	}
	store.Commit(func(tx *facts.Tx) {
		tx.Instances(facts.Health("dc1", "api"), []*facts.Instance{{
			Node:    facts.Node{Node: "n1", Address: "127.0.0.1"},
			Service: facts.Service{ID: "api-1", Service: "api", Port: 80, Weights: facts.Weights{Passing: 7, Warning: 2}},
			Checks:  []facts.Check{{CheckID: "c", Status: facts.StatusWarning}},
		}}, facts.Reading{Confirmed: true})
	})
	e = admin.Describe(store.View(), "dc1", "api")
	if e.State != "present" || len(e.Instances) != 1 {
		t.Fatalf("one instance: %+v", e)
	}
	in := e.Instances[0]
	if in.Address != "127.0.0.1" || in.Port != 80 || in.Health != "HEALTHY" || in.Weight != 2 || len(in.Checks) != 1 {
		t.Errorf("instance: %+v", in)
	}
}

func TestAnAskerHasInstancesReadThatNobodyNeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := facts.New()
		bell, end := store.NeedsBell()
		defer end()
		go func() {
			<-bell
			topics, _ := store.Needs()
			store.Commit(func(tx *facts.Tx) {
				tx.Instances(topics[0], []*facts.Instance{{Service: facts.Service{ID: "api-1", Service: "api"}}}, facts.Reading{Confirmed: true})
			})
		}()
		asker := admin.NewAsker(store)
		if e := asker.Endpoints(t.Context(), "dc1", "api"); e.State != "present" || len(e.Instances) != 1 {
			t.Errorf("%+v", e)
		}
		if e := asker.Endpoints(t.Context(), "dc1", "nobody"); e.State != "unknown" {
			t.Errorf("what cannot be read is %+v", e)
		}
		if topics, _ := store.Needs(); len(topics) != 0 {
			t.Errorf("the questions left the needs %v", topics)
		}
	})
}
