package oracle_test

import "math"

func (g *generator) router() object {
	routes := []object{}
	for range g.IntN(4) {
		route := object{}
		g.maybe(0.8, route, "Match", g.match)
		g.maybe(0.8, route, "Destination", g.destination)
		routes = append(routes, route)
	}
	return object{"Routes": routes}
}

func (g *generator) match() any {
	h := object{}
	switch g.IntN(6) {
	case 0:
		h["PathExact"] = "/x"
	case 1:
		h["PathPrefix"] = pick(g, "/y", "/", "/y/")
	case 2:
		h["PathRegex"] = pick(g, "/z.*<", "/(")
	case 3:
		return pick(g, object{}, object{"HTTP": object{}})
	}
	g.maybe(0.3, h, "Methods", func() any {
		return pick(g, []string{"get", "PUT"}, []string{"POST"}, []string{"Patch"}, []string{"get", "GET"}, []string{"FETCH"})
	})
	g.maybe(0.3, h, "Header", func() any {
		m := object{"Name": "h", "Invert": g.odds(0.5), pick(g, "Exact", "Prefix", "Suffix", "Regex"): "v&"}
		g.maybe(0.05, m, "Present", func() any { return true })
		return []object{m, {"Name": "i", "Present": true}}
	})
	g.maybe(0.3, h, "QueryParam", func() any {
		m := object{pick(g, "Exact", "Regex"): "v"}
		g.maybe(0.95, m, "Name", func() any { return "q" })
		return []object{m, {"Name": "i", "Present": true}}
	})
	g.maybe(0.2, h, "CaseInsensitive", func() any { return g.odds(0.5) })
	return object{"HTTP": h}
}

func (g *generator) destination() any {
	d := object{}
	g.maybe(0.8, d, "Service", g.other)
	g.maybe(0.2, d, "ServiceSubset", g.subset)
	g.maybe(0.06, d, "Namespace", func() any { return pick(g, "ns1", "default", "NS2") })
	g.maybe(0.06, d, "Partition", func() any { return pick(g, "p1", "default", "P2") })
	g.maybe(0.1, d, "PrefixRewrite", func() any { return pick(g, "/", "/q") })
	g.maybe(0.3, d, "RequestTimeout", g.duration)
	g.maybe(0.3, d, "IdleTimeout", g.duration)
	g.maybe(0.05, d, "RequestTimeout", func() any { return "-1s" })
	g.maybe(0.3, d, "NumRetries", func() any { return g.IntN(4) })
	g.maybe(0.3, d, "RetryOn", func() any { return []string{"5xx", pick(g, "reset", "retriable-4xx", "cancelled", "5xx", "bored")} })
	g.maybe(0.3, d, "RetryOnStatusCodes", func() any { return []int{500, 7} })
	g.maybe(0.3, d, "RetryOnConnectFailure", func() any { return g.odds(0.5) })
	g.maybe(0.2, d, "RequestHeaders", g.headers)
	g.maybe(0.2, d, "ResponseHeaders", g.headers)
	return d
}

func (g *generator) splitter() object {
	legs := []object{}
	for _, weight := range g.weights() {
		leg := object{"Weight": weight}
		g.maybe(0.85, leg, "Service", g.other)
		g.maybe(0.2, leg, "ServiceSubset", g.subset)
		g.maybe(0.05, leg, "Namespace", func() any { return pick(g, "ns1", "default") })
		g.maybe(0.05, leg, "Partition", func() any { return pick(g, "p1", "default") })
		g.maybe(0.4, leg, "RequestHeaders", g.headers)
		g.maybe(0.4, leg, "ResponseHeaders", g.headers)
		legs = append(legs, leg)
	}
	return object{"Splits": legs}
}

// weights sum to 100, but for one time in twenty.
func (g *generator) weights() []any {
	x := float64(g.IntN(10001)) / 100
	y := math.Round(100*(100-x)*g.Float64()) / 100
	switch g.IntN(20) {
	case 0:
		return pick(g, []any{}, []any{x}, []any{50, 49.99}, []any{33.333, 33.333, 33.334})
	case 1:
		return pick(g, []any{-10, 110}, []any{0, 100}, []any{0.004, 99.996}, []any{100.001}, []any{0.01, 99.99})
	case 2, 3, 4, 5:
		return []any{100}
	case 6, 7, 8, 9, 10, 11:
		return []any{x, 100 - x}
	}
	return []any{x, y, 100 - x - y}
}
