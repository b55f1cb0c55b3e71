package scenario

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// request is one HTTP request of the client's service.
type request struct {
	upstream, path string
	query          url.Values
	// headers are by lower-cased name, :method among them.
	headers map[string]string
}

// parseRequest reads "GET api/path?a=b name:value ...".
func parseRequest(method string, words []string) (request, error) {
	target, query, _ := strings.Cut(words[0], "?")
	upstream, path, ok := strings.Cut(target, "/")
	if !ok {
		return request{}, fmt.Errorf("%s has no path", words[0])
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return request{}, err
	}
	r := request{upstream: upstream, path: "/" + path, query: values, headers: map[string]string{":method": method}}
	for _, word := range words[1:] {
		name, value, ok := strings.Cut(word, ":")
		if !ok {
			return request{}, fmt.Errorf("%q is not name:value", word)
		}
		r.headers[strings.ToLower(name)] = value
	}
	return r, nil
}

// answers says for each call what becomes of it, the arrows in one column.
func answers(t *testing.T, s *simulator, calls []string) []byte {
	t.Helper()
	width := 0
	for _, call := range calls {
		width = max(width, len(call))
	}
	var b strings.Builder
	for _, call := range calls {
		words := strings.Fields(call)
		if len(words) < 2 {
			t.Fatalf("call %q: write METHOD UPSTREAM/PATH or CONNECT UPSTREAM", call)
		}
		a, err := s.call(words)
		if err != nil {
			t.Fatalf("call %q: %v", call, err)
		}
		fmt.Fprintf(&b, "%-*s -> %s\n", width, call, a)
	}
	return []byte(b.String())
}

func (s *simulator) call(words []string) (answer, error) {
	if words[0] == "AS" || words[0] == "AT" {
		a, err := parseArrival(words)
		if err != nil {
			return answer{}, err
		}
		return s.arrives(a)
	}
	if words[0] == "CONNECT" {
		return s.connection(words[1])
	}
	r, err := parseRequest(words[0], words[1:])
	if err != nil {
		return answer{}, err
	}
	return s.request(r)
}

// String prints an answer such as "v1 90%, v2 10% timeout=3s". With a hash all calls of one value go
// to one of the instances, and the shares are of the values.
func (a answer) String() string {
	if a.refused != "" {
		return a.refused
	}
	type group struct{ to, changes string }
	var order []group
	percent := map[group]float64{}
	for _, sh := range a.shares {
		g := group{sh.to, sh.changes}
		if !slices.Contains(order, g) {
			order = append(order, g)
		}
		percent[g] += sh.percent
	}
	parts := make([]string, 0, len(order))
	for _, g := range order {
		part := g.to + " " + strconv.FormatFloat(math.Round(percent[g]*100)/100, 'f', -1, 64) + "%"
		if g.changes != "" {
			part += " (" + g.changes + ")"
		}
		parts = append(parts, part)
	}
	to := strings.Join(parts, ", ")
	if len(parts) > 1 && slices.ContainsFunc(a.notes, func(n string) bool { return strings.HasPrefix(n, "hash=") }) {
		to = "one of " + to
	}
	return strings.Join(append([]string{to}, a.notes...), " ")
}
