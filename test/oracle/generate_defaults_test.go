package oracle_test

func (g *generator) proxyDefaults() object {
	doc := object{}
	g.maybe(0.9, doc, "Config", func() any {
		return object{"protocol": pick[any](g, "http", "http", "http", "http", "HTTP", "http2", "tcp", "grpc", "", "banana"), "x": 1}
	})
	g.maybe(0.3, doc, "MeshGateway", g.meshGateway)
	g.maybe(0.3, doc, "TransparentProxy", g.transparentProxy)
	g.maybe(0.4, doc, "FailoverPolicy", func() any {
		return pick(g, object{}, object{"Mode": "sequential"}, object{"Mode": "order-by-locality", "Regions": []string{"r1", "r2"}},
			object{"Regions": []string{"r1"}}, object{"Mode": "default"})
	})
	g.maybe(0.2, doc, "PrioritizeByLocality", func() any { return pick(g, object{}, object{}, object{"Mode": "failover"}) })
	g.maybe(0.3, doc, "EnvoyExtensions", g.extensions)
	g.maybe(0.1, doc, "Mode", func() any { return pick(g, "transparent", "direct") })
	g.maybe(0.1, doc, "MutualTLSMode", func() any { return pick(g, "strict", "", "permissive") })
	g.maybe(0.1, doc, "Expose", g.expose)
	g.maybe(0.1, doc, "AccessLogs", func() any { return object{"Enabled": true, "Type": pick(g, "stdout", "stderr", "file")} })
	return doc
}

func (g *generator) serviceDefaults() object {
	doc := object{}
	g.maybe(0.92, doc, "Protocol", func() any {
		if g.odds(0.93) {
			return g.protocol
		}
		return pick(g, "http", "HTTP", "tcp", "grpc", "http2", "", "udp")
	})
	g.maybe(0.3, doc, "MeshGateway", g.meshGateway)
	g.maybe(0.1, doc, "ExternalSNI", func() any { return "sni." + g.own() })
	g.maybe(0.2, doc, "TransparentProxy", g.transparentProxy)
	g.maybe(0.2, doc, "EnvoyExtensions", g.extensions)
	g.maybe(0.05, doc, "Expose", g.expose)
	g.maybe(0.05, doc, "Mode", func() any { return pick(g, "transparent", "direct") })
	g.maybe(0.05, doc, "MaxInboundConnections", func() any { return g.IntN(5) - 1 })
	g.maybe(0.05, doc, "LocalConnectTimeoutMs", func() any { return g.IntN(5000) })
	g.maybe(0.05, doc, "LocalRequestTimeoutMs", func() any { return g.IntN(5000) })
	g.maybe(0.05, doc, "BalanceInboundConnections", func() any { return pick(g, "exact_balance", "", "best") })
	g.maybe(0.05, doc, "MaxRequestHeadersKB", func() any { return 96 })
	g.maybe(0.02, doc, "RateLimits", func() any { return object{"InstanceLevel": object{"RequestsPerSecond": 5}} })
	g.maybe(0.1, doc, "UpstreamConfig", g.upstreams)
	g.maybe(0.05, doc, "Destination", func() any {
		return object{"Addresses": pick(g, []string{"10.0.0.1"}, []string{"a.example", "b.example"}, []string{"*.example"}), "Port": g.IntN(3)}
	})
	return doc
}

func (g *generator) meshGateway() any {
	return object{"Mode": pick(g, "local", "remote", "none", "none", "")}
}

func (g *generator) transparentProxy() any {
	return object{"DialedDirectly": g.odds(0.5), "OutboundListenerPort": g.IntN(2) * 15001}
}

func (g *generator) expose() any {
	return object{"Checks": g.odds(0.5), "Paths": []object{{"Path": "/health", "ListenerPort": 21500, "LocalPathPort": 8080, "Protocol": "http"}}}
}

func (g *generator) extensions() any {
	var list []object
	for range 1 + g.IntN(2) {
		e := object{
			"Name": "builtin/lua", "Required": g.odds(0.5),
			"Arguments": object{"ProxyType": "connect-proxy", "Listener": "inbound", "Script": pick(g, "x = 1", "y = 2 < 3")},
		}
		g.maybe(0.2, e, "ConsulVersion", func() any { return ">= 1.16" })
		g.maybe(0.2, e, "EnvoyVersion", func() any { return pick(g, ">= 1.20, < 9", "new") })
		list = append(list, e)
	}
	return list
}

func (g *generator) upstreams() any {
	one := func() object {
		u := object{}
		g.maybe(0.3, u, "Protocol", func() any { return pick(g, "http", "tcp") })
		g.maybe(0.3, u, "ConnectTimeoutMs", func() any { return g.IntN(9000) })
		g.maybe(0.3, u, "MeshGateway", g.meshGateway)
		g.maybe(0.3, u, "Limits", func() any { return object{"MaxConnections": g.IntN(10), "MaxPendingRequests": g.IntN(10) - 1} })
		g.maybe(0.3, u, "PassiveHealthCheck", func() any {
			return object{"Interval": g.duration(), "MaxFailures": g.IntN(5), "EnforcingConsecutive5xx": g.IntN(102)}
		})
		return u
	}
	u := object{}
	g.maybe(0.7, u, "Defaults", func() any { return one() })
	g.maybe(0.7, u, "Overrides", func() any {
		o := one()
		g.maybe(0.95, o, "Name", g.other)
		return []object{o}
	})
	return u
}
