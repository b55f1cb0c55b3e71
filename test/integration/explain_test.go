package integration_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/catenary-mesh/catenary/internal/admin"
	"github.com/catenary-mesh/catenary/internal/journey"
	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
)

// TestRequestsLandWhereExplainSays sends random requests through routers, splitters and resolvers that are random
// too. Whether an Envoy minds a name's case, joins headers, decodes a query or tries failover is its own answer.
func TestRequestsLandWhereExplainSays(t *testing.T) {
	t.Parallel()
	t.Run("newest", func(t *testing.T) { land(t, 1, 200, testenv.NewestEnvoy) })
	t.Run("oldest", func(t *testing.T) { land(t, 2, 60, testenv.OldestEnvoy) })
}

// The services whose chains are random, and those that they lead to.
const (
	doors  = 8
	behind = 4
)

// maze is a fleet with random entries.
type maze struct {
	*random
	t     *testing.T
	ports map[string]int // of services that have an upstream
	at    map[string]*testenv.Backend
	joins bool // the Envoy joins the values of a header that repeats
	api   *admin.Client
	http  *http.Client
}

// land sends n requests, and compares the distribution of some.
func land(t *testing.T, seed uint64, n int, version testenv.EnvoyVersion) {
	t.Helper()
	t.Logf("seed %d", seed) // shown where the test fails, and enough to repeat it
	m := newMaze(t, seed, version)
	split := map[string]journey.Words{}
	for range n {
		w := m.question()
		j := m.explained(w)
		want, got := outcomes(&j), m.send(w)
		if want[got] == 0 {
			t.Errorf("%+v lands at %s, and was to land at %v by the routes %+v", w, got, want, j.Routes)
		}
		m.arrived(&j, w, got)
		if len(want) > 1 {
			split[fmt.Sprint(w.Service, want)] = w
		}
	}
	if len(split) == 0 {
		t.Error("no request could land at two places")
	}
	const spread = 5 // so many ways are counted
	for i, key := range slices.Sorted(keysOf(split)) {
		if i < spread {
			m.count(split[key])
		}
	}
}

// arrived checks the path that the instance saw.
func (m *maze) arrived(j *journey.Journey, w journey.Words, at string) {
	m.t.Helper()
	want := w.Path
	for _, r := range j.Routes {
		if r.Verdict == journey.Takes && r.Arrives != "" {
			want = r.Arrives
		}
	}
	if b := m.at[at]; b != nil {
		if got, _, _ := strings.Cut(b.Last().RequestURI, "?"); got != want {
			m.t.Errorf("%+v arrives as %s, not %s", w, got, want)
		}
	}
}

// count sends a request often. Each outcome is as frequent as was said, within five standard deviations: by chance
// one of two millions is beyond.
func (m *maze) count(w journey.Words) {
	m.t.Helper()
	const calls = 600
	j := m.explained(w)
	got, want := map[string]int{}, outcomes(&j)
	for range calls {
		got[m.send(w)]++
	}
	for to, percent := range want {
		p := percent / 100
		if off := math.Abs(float64(got[to]) - calls*p); off > 5*math.Sqrt(calls*p*(1-p))+1 {
			m.t.Errorf("%+v: %d of %d at %s, want %.2f %%", w, got[to], calls, to, percent)
		}
	}
}

func keysOf[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func newMaze(t *testing.T, seed uint64, version testenv.EnvoyVersion) *maze {
	t.Helper()
	m := &maze{
		joins: version == testenv.OldestEnvoy, random: &random{rand.New(rand.NewPCG(seed, 0))}, t: t, ports: map[string]int{}, at: map[string]*testenv.Backend{},
		http: &http.Client{Transport: &http.Transport{}},
	}
	f := serveFiles(t)
	m.api = admin.NewClient(f.catenary.AdminAddr)
	f.write("defaults.hcl", httpEverywhere)
	var services strings.Builder
	for i := range behind {
		for _, version := range []string{"v1", "v2", "v1b"} {
			id := fmt.Sprintf("t%d-%s", i, version)
			m.at[id] = testenv.StartBackend(t, id)
			services.WriteString(m.instance(fmt.Sprintf("t%d", i), id, m.at[id].Port))
		}
	}
	f.write("services.hcl", services.String())
	var ups []string
	for i := range doors + behind {
		name := m.name(i)
		for kind, entry := range m.entries(i) {
			text, err := json.Marshal(entry)
			if err != nil {
				t.Fatal(err)
			}
			f.write(name+"-"+kind+".json", string(text))
		}
		if i < doors {
			p, up := port(t, name)
			m.ports[name] = p
			ups = append(ups, up)
		}
	}
	testenv.StartEnvoy(t, bootstrapOf(t, f.catenary, seed%2 == 0, ups...), testenv.WithEnvoyVersion(version)).WaitReady()
	proxy(t, f.catenary, "web-1", xds.StateSynced)
	if problems, err := m.api.Problems(t.Context()); err != nil || slices.ContainsFunc(problems, func(p admin.Problem) bool { return p.Chain == "" && p.IsError() }) {
		t.Fatalf("the random files are not taken: %v %v", problems, err)
	}
	return m
}

func (m *maze) explained(w journey.Words) journey.Journey {
	m.t.Helper()
	if m.joins {
		w.Headers = joined(w.Headers)
	}
	j, err := m.api.Journey(m.t.Context(), w)
	if err != nil {
		m.t.Fatal(err)
	}
	return j
}

// joined is how an Envoy before 1.39 sees headers.
func joined(headers []string) []string {
	var out []string
	for _, h := range headers {
		name, value, _ := strings.Cut(h, "=")
		at := slices.IndexFunc(out, func(o string) bool { return strings.EqualFold(o[:strings.Index(o, "=")], name) })
		if at < 0 {
			out = append(out, h)
			continue
		}
		out[at] += "," + value
	}
	return out
}

// outcomes are where a request may land, and how often in percent.
func outcomes(j *journey.Journey) map[string]float64 {
	out := map[string]float64{}
	if j.Refused != "" {
		out["503"] = 100
	}
	for _, s := range j.Traffic {
		if s.Fails != "" {
			out[s.Fails[:3]] += s.Percent
			continue
		}
		at := slices.IndexFunc(j.Targets, func(t *journey.Target) bool { return t.ID == s.Target })
		for _, e := range j.Targets[at].Endpoints {
			if e.Percent > 0 {
				out[e.ID] += s.Percent * e.Percent / 100
			}
		}
	}
	return out
}

// send returns who answers, or the status.
func (m *maze) send(w journey.Words) string {
	m.t.Helper()
	url := fmt.Sprintf("http://127.0.0.1:%d%s", m.ports[w.Service], w.Path)
	if len(w.Query) > 0 {
		url += "?" + strings.Join(w.Query, "&")
	}
	req, err := http.NewRequestWithContext(m.t.Context(), w.Method, url, http.NoBody)
	if err != nil {
		m.t.Fatal(err)
	}
	req.Host = w.Service
	for _, h := range w.Headers {
		name, value, _ := strings.Cut(h, "=")
		if name == "host" {
			req.Host = value
			continue
		}
		name = strings.ToLower(name) // else those of two spellings may change places
		req.Header[name] = append(req.Header[name], value)
	}
	resp, err := m.http.Do(req)
	if err != nil {
		m.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		m.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK { // the only other answers are those of Envoy itself
		return fmt.Sprint(resp.StatusCode)
	}
	return string(body)
}
