package integration_test

import (
	"fmt"
	"math/rand/v2"

	"github.com/catenary-mesh/catenary/internal/journey"
)

// random makes entries and requests of few words, so that they meet in every way.
type random struct{ *rand.Rand }

func (r *random) of(list ...string) string { return list[r.IntN(len(list))] }
func (r *random) once(in int) bool         { return r.IntN(in) == 0 }

// name of the i-th service: those that have an upstream, and then those behind them.
func (r *random) name(i int) string {
	if i < doors {
		return fmt.Sprintf("s%d", i)
	}
	return fmt.Sprintf("t%d", i-doors)
}

func (r *random) target() string { return fmt.Sprintf("t%d", r.IntN(behind)) }

// instance registers a backend whose health and weights are random.
func (r *random) instance(name, id string, port int) string {
	version := "v1"
	if id[len(id)-2:] == "v2" {
		version = "v2"
	}
	return fmt.Sprintf(`
service {
  name = %q
  id   = %q
  port = %d
  meta { version = %q }
  weights { passing = %d, warning = %d }
  checks = [{ name = "up", status = %q }]
}
`, name, id, port, version, 1+r.IntN(4), r.IntN(3), r.of("passing", "passing", "passing", "warning", "critical"))
}

type object = map[string]any

// entries are those of the i-th service by kind.
func (r *random) entries(i int) map[string]object {
	name := r.name(i)
	out := map[string]object{}
	if i >= doors {
		out["resolver"] = r.resolver(name)
		return out
	}
	out["splitter"] = r.splitter(name)
	var routes []object
	for range r.IntN(7) {
		destination := object{"Service": r.target(), "ServiceSubset": r.of("", "v1", "v2")}
		if r.once(3) {
			destination = object{"Service": r.name(r.IntN(doors))}
		}
		match := r.match()
		if (match["PathExact"] != nil || match["PathPrefix"] != nil) && r.once(3) {
			destination["PrefixRewrite"] = r.of("/", "/new", "/new/")
		}
		routes = append(routes, object{"Match": object{"HTTP": match}, "Destination": destination})
	}
	if len(routes) > 0 {
		out["router"] = object{"Kind": "service-router", "Name": name, "Routes": routes}
	}
	return out
}

// splitter has up to all legs there are, each once.
func (r *random) splitter(name string) object {
	var legs []object
	for i := range behind {
		for _, subset := range []string{"", "v1", "v2"} {
			legs = append(legs, object{"Service": fmt.Sprintf("t%d", i), "ServiceSubset": subset})
		}
	}
	r.Shuffle(len(legs), func(i, j int) { legs[i], legs[j] = legs[j], legs[i] })
	left := 100
	for i := range legs {
		weight := min(left, 1+r.IntN(80))
		if i == len(legs)-1 {
			weight = left
		}
		legs[i]["Weight"] = weight
		if left -= weight; left == 0 {
			legs = legs[:i+1]
			break
		}
	}
	return object{"Kind": "service-splitter", "Name": name, "Splits": legs}
}

func (r *random) resolver(name string) object {
	out := object{"Kind": "service-resolver", "Name": name, "Subsets": object{
		"v1": object{"Filter": "Service.Meta.version == v1", "OnlyPassing": r.once(3)},
		"v2": object{"Filter": "Service.Meta.version == v2"},
	}}
	if r.once(2) {
		out["Failover"] = object{r.of("*", "v1", "v2"): object{"Targets": []object{
			{"Service": r.target(), "ServiceSubset": r.of("", "v1")}, {"Service": r.target()},
		}}}
	}
	return out
}

// match is random too; a quarter of all take any path.
func (r *random) match() object {
	m := object{}
	switch r.IntN(4) {
	case 0:
		m["PathExact"] = r.path()
	case 1:
		m["PathPrefix"] = r.path()
	case 2:
		m["PathRegex"] = r.of("/a.*", "/[aA]", "/a|/b", `/\d+`, "/.*b", "/a/?b?", "(?:/[a-z]+)+")
	}
	if len(m) > 0 && r.once(3) {
		m["CaseInsensitive"] = true
	}
	for range r.IntN(4) - 1 {
		h := object{"Name": r.of("x-h", "X-H", "x-g", "host")}
		switch r.IntN(5) {
		case 0:
			h["Present"] = true
		case 1:
			h["Exact"] = r.value()
		case 2:
			h["Prefix"] = r.value()
		case 3:
			h["Suffix"] = r.value()
		case 4:
			h["Regex"] = r.of("1", "[12]+", "1.*", ".*2", "1|12", "1,.*")
		}
		if r.once(3) {
			h["Invert"] = true
		}
		m["Header"] = append(listOf(m["Header"]), h)
	}
	if r.once(4) {
		q := object{"Name": r.of("q", "Q", "v")}
		switch r.IntN(3) {
		case 0:
			q["Present"] = true
		case 1:
			q["Exact"] = r.of("1", "2", "a b", "a%20b")
		case 2:
			q["Regex"] = r.of("1", "[12]", ".*", "a.*b")
		}
		m["QueryParam"] = []object{q}
	}
	if r.once(4) {
		m["Methods"] = []string{r.of("GET", "POST"), "PUT"}
	}
	return m
}

func listOf(v any) []object {
	list, _ := v.([]object)
	return list
}

func (r *random) path() string {
	return r.of("/", "/a", "/A", "/a/b", "/ab", "/b", "/7", "/a/", "/a//b", "/a/./b", "/a/../b", "/%61", "/ab/c.d")
}

func (r *random) value() string { return r.of("1", "2", "12", "1,2", "A", "a") }

// question is a request of the same few words.
func (r *random) question() journey.Words {
	w := journey.Words{Service: r.name(r.IntN(doors)), Method: r.of("GET", "GET", "POST", "PUT", "DELETE"), Path: r.path()}
	for range r.IntN(3) {
		w.Headers = append(w.Headers, r.of("x-h", "X-H", "X-g")+"="+r.of("1", "2", "12", "1,2", "A", "a", ""))
	}
	if r.once(4) {
		w.Headers = append(w.Headers, "host="+r.of("1", "12", "a"))
	}
	for range r.IntN(3) {
		w.Query = append(w.Query, r.of("q=1", "q=2", "q", "q=", "Q=1", "v=a%20b", "v=a+b", "v=1"))
	}
	return w
}
