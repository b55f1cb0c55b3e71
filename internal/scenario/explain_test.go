package scenario

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/chain/explain"
	"github.com/catenary-mesh/catenary/internal/journey"
)

// What a question is answered must be what becomes of the call by the resources alone: two ways that share
// nothing but the chain.
func TestJourneysEndWhereTheResourcesLead(t *testing.T) {
	asked := 0
	eachScenario(t, func(t *testing.T, _ string, ar *txtar.Archive) {
		w := readWorld(t, ar)
		if !w.client.Declared || hasOverrides(w) {
			return // a journey is that of a client without wishes of its own
		}
		out := outcome(t, ar)
		calls, _ := find(&txtar.Archive{Files: out}, wantDir+"calls")
		for line := range strings.Lines(string(calls)) {
			call, want, _ := strings.Cut(strings.TrimSpace(line), "->")
			words := strings.Fields(call)
			if words[0] == "AS" || words[0] == "AT" {
				continue
			}
			asked++
			if got := ask(t, w, words); !agrees(got, want) {
				t.Errorf("%s: the journey ends at %v, and the resources lead to %s", call, got, want)
			}
		}
	})
	if asked < 50 {
		t.Errorf("only %d calls were compared", asked)
	}
}

// hasOverrides reports whether the client's service says how its upstreams are to be.
func hasOverrides(w world) bool {
	return slices.ContainsFunc(w.entries, func(e chain.Entry) bool {
		d, ok := e.(*chain.ServiceDefaults)
		return ok && d.Name == w.client.Service && d.UpstreamConfig != nil
	})
}

// ask returns the percents by instance; a failure has its status.
func ask(t *testing.T, w world, words []string) map[string]float64 {
	t.Helper()
	name, _, _ := strings.Cut(words[1], "/")
	q := journey.Question{}
	q.Service, q.Datacenter, _ = strings.Cut(name, "@")
	if words[0] != "CONNECT" {
		q.Request = asRequest(t, words)
	}
	j, _, err := journey.Make(config(), w.store().View(), q, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	if j.Refused != "" {
		got[j.Refused] = 100
	}
	for _, s := range j.Traffic {
		if s.Fails != "" {
			got[s.Fails] += s.Percent
			continue
		}
		at := slices.IndexFunc(j.Targets, func(t *journey.Target) bool { return t.ID == s.Target })
		for _, e := range j.Targets[at].Endpoints {
			if e.Percent > 0 {
				got[e.ID] += s.Percent * e.Percent / 100
			}
		}
	}
	return got
}

func asRequest(t *testing.T, words []string) *explain.Request {
	t.Helper()
	target, query, _ := strings.Cut(words[1], "?")
	_, path, _ := strings.Cut(target, "/")
	r := &explain.Request{Method: words[0], Host: "api", Path: "/" + path}
	for _, p := range strings.Split(query, "&") {
		if name, value, _ := strings.Cut(p, "="); name != "" {
			r.Query = append(r.Query, explain.Pair{Name: name, Value: value})
		}
	}
	for _, h := range words[2:] {
		name, value, _ := strings.Cut(h, ":")
		r.Headers = append(r.Headers, explain.Pair{Name: name, Value: value})
	}
	return r
}

// agrees compares with an answer of the simulator, such as "v1 90%, 503 (no healthy upstream) 10% timeout=3s".
func agrees(got map[string]float64, want string) bool {
	sums := map[string]float64{}
	for _, m := range regexp.MustCompile(`([^ ,]+)(?: \([^)]*\))? ([0-9.]+)%`).FindAllStringSubmatch(want, -1) {
		percent, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			return false
		}
		sums[m[1]] += percent
	}
	if len(sums) == 0 { // such as 503 "catenary: no such subset"
		sums[strings.Fields(want)[0]] = 100
	}
	plain := map[string]float64{}
	for name, percent := range got {
		first, _, _ := strings.Cut(name, ":")
		plain[strings.NewReplacer("every request is answered with 503 and the problem's text", "503",
			"every connection is closed", "closed").Replace(first)] += percent
	}
	return maps.EqualFunc(plain, sums, func(a, b float64) bool { return math.Abs(a-b) < 0.02 })
}
