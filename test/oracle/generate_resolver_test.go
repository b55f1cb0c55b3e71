package oracle_test

func (g *generator) resolver() object {
	doc := object{}
	if g.odds(0.55) {
		doc["Subsets"] = object{
			"v1": object{"Filter": pick(g, "Service.Meta.version == 1", `"<a&b>" in Service.Tags`, "Service.Meta.version ==")},
			"v2": object{"OnlyPassing": g.odds(0.5)},
		}
		if g.odds(0.9) {
			doc["Subsets"].(object)["v1"] = object{"Filter": "Service.Meta.version == 1"}
		}
		g.maybe(0.3, doc, "DefaultSubset", g.subset)
	} else {
		g.maybe(0.1, doc, "Subsets", func() any { return object{} })
	}
	g.maybe(0.3, doc, "ConnectTimeout", g.duration)
	g.maybe(0.2, doc, "RequestTimeout", g.duration)
	g.maybe(0.02, doc, "RequestTimeout", func() any { return "-1s" })
	g.maybe(0.1, doc, "PrioritizeByLocality", func() any { return pick(g, object{}, object{}, object{}, object{"Mode": "none"}) })
	g.maybe(0.3, doc, "LoadBalancer", g.balancer)
	switch {
	case g.odds(0.35):
		doc["Redirect"] = g.redirect()
		g.maybe(0.02, doc, "Failover", func() any { return object{"*": g.failover()} })
	case g.odds(0.7):
		f := object{pick(g, "*", "*", "v1", "v2"): g.failover()}
		g.maybe(0.3, f, pick(g, "*", "v1", "v2", ""), g.failover)
		doc["Failover"] = f
	default:
		g.maybe(0.1, doc, "Failover", func() any { return object{} })
	}
	return doc
}

func (g *generator) redirect() any {
	r := object{}
	g.maybe(0.9, r, "Service", g.other)
	g.maybe(0.2, r, "ServiceSubset", g.subset)
	if g.odds(0.2) {
		r["Peer"] = g.peer()
	} else {
		g.maybe(0.25, r, "Datacenter", g.datacenter)
	}
	g.maybe(0.03, r, "Datacenter", g.datacenter)
	g.maybe(0.02, r, "Namespace", func() any { return pick(g, "ns1", "default") })
	g.maybe(0.02, r, "Partition", func() any { return pick(g, "p1", "default") })
	g.maybe(0.02, r, "SamenessGroup", func() any { return "all" })
	return r
}

func (g *generator) failover() any {
	f := object{}
	switch g.IntN(5) {
	case 0, 1:
		f["Datacenters"] = pick(g, []string{"dc2", "dc1"}, []string{"dc3"}, []string{"dc2", "dc2"}, []string{"dc1"}, []string{"dc2", "DC1"})
	case 2, 3:
		targets := []object{}
		for range 1 + g.IntN(4) {
			targets = append(targets, g.failoverTarget())
		}
		f["Targets"] = targets
	}
	if f["Targets"] == nil || g.odds(0.03) {
		g.maybe(0.7, f, "Service", g.other)
		g.maybe(0.3, f, "ServiceSubset", g.subset)
	}
	g.maybe(0.3, f, "Policy", func() any {
		return pick(g, object{}, object{"Regions": []string{"r1"}}, object{"Regions": []string{"r2", "r1"}}, object{"Mode": "sequential"})
	})
	g.maybe(0.02, f, "Namespace", func() any { return pick(g, "ns1", "default") })
	g.maybe(0.02, f, "SamenessGroup", func() any { return "all" })
	return f
}

func (g *generator) failoverTarget() object {
	t := object{}
	g.maybe(0.6, t, "Service", g.other)
	if g.odds(0.3) {
		t["Peer"] = g.peer()
		g.maybe(0.05, t, "ServiceSubset", g.subset)
	} else {
		g.maybe(0.4, t, "Datacenter", g.datacenter)
		g.maybe(0.4, t, "ServiceSubset", g.subset)
	}
	g.maybe(0.02, t, "Namespace", func() any { return pick(g, "ns1", "default") })
	g.maybe(0.02, t, "Partition", func() any { return pick(g, "p1", "default") })
	return t
}

func (g *generator) balancer() any {
	hashes := []object{
		{"SourceIP": true},
		{"Field": "cookie", "FieldValue": "c", "CookieConfig": object{"TTL": g.duration(), "Path": "/"}},
		{"Field": "cookie", "FieldValue": "s", "CookieConfig": object{"Session": true}},
		{"Field": pick(g, "header", "query_parameter"), "FieldValue": "h", "Terminal": g.odds(0.5)},
	}
	return pick(g,
		object{}, object{"Policy": "random"}, object{"Policy": "round_robin"}, object{"Policy": "best"},
		object{"Policy": "least_request", "LeastRequestConfig": object{"ChoiceCount": g.IntN(4)}},
		object{"Policy": "ring_hash", "RingHashConfig": object{"MinimumRingSize": 3, "MaximumRingSize": g.IntN(9)}},
		object{"Policy": "ring_hash", "HashPolicies": hashes[:g.IntN(5)]},
		object{"Policy": "maglev", "HashPolicies": hashes[g.IntN(5):]},
		object{"Policy": "maglev"}, object{"Policy": pick(g, "random", "maglev"), "RingHashConfig": object{}},
		object{"Policy": "round_robin", "HashPolicies": hashes[:1]},
		object{"HashPolicies": []object{{"Field": "cookie", "FieldValue": "c", "CookieConfig": object{"Session": true, "TTL": "1s"}}}},
	)
}
