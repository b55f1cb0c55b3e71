package support

import "github.com/catenary-mesh/catenary/chain"

// rows is the table of a kind: a row holds for its field and all below that have none of their own.
func rows(kind chain.Kind) []Field {
	switch kind {
	case chain.KindProxyDefaults:
		return proxyDefaults()
	case chain.KindServiceDefaults:
		return serviceDefaults()
	case chain.KindServiceRouter:
		return serviceRouter()
	case chain.KindServiceSplitter:
		return serviceSplitter()
	case chain.KindServiceResolver:
		return serviceResolver()
	case chain.KindServiceIntentions:
		return serviceIntentions()
	case chain.KindMesh:
		return mesh()
	}
	return nil
}

const (
	enterprise   = "CAT1004: Consul Enterprise"
	sidecar      = "sidecars are not configured by it yet"
	gateways     = "by sidecars, towards other datacenters; clients without sidecar dial instances themselves"
	extensions   = "extensions are not applied yet"
	peering      = "cluster peering is not supported: such an upstream stays pending"
	inEnterprise = "Consul acts on it in Enterprise only"
	tokens       = "tokens are not checked yet, so no request passes by it"
	ownData      = "your own data"
)

func proxyDefaults() []Field {
	return append(bothDefaults(),
		Field{"Name", Supported, "always `global`"},
		Field{"Config", Supported, "`protocol`, and the keys of [sidecars](mesh.md); others have no effect"},
		Field{"AccessLogs", Supported, ""},
		Field{"FailoverPolicy", InChain, inEnterprise},
		Field{"PrioritizeByLocality.Mode", Rejected, enterprise},
	)
}

func serviceDefaults() []Field {
	list := append(bothDefaults(),
		Field{"Name", Supported, ""},
		Field{"Meta", Supported, "the chain's ServiceMeta"},
		Field{"Protocol", Supported, "left out, it means tcp, whatever proxy-defaults say"},
		Field{"ExternalSNI", Supported, "by sidecars; others dial without TLS"},
		Field{"Destination", Ignored, "destinations outside the mesh are not served yet"},
		Field{"MaxInboundConnections", Supported, "by sidecars"},
		Field{"LocalConnectTimeoutMs", Supported, "by sidecars"},
		Field{"LocalRequestTimeoutMs", Supported, "by sidecars"},
		Field{"BalanceInboundConnections", Supported, "by sidecars: `exact_balance`"},
		Field{"MaxRequestHeadersKB", Supported, "by sidecars, up to 8192"},
		Field{"RateLimits", Rejected, enterprise},
		Field{"UpstreamConfig.Overrides[].Name", Supported, "the upstream"},
		Field{"UpstreamConfig.Defaults.Name", Rejected, "CAT1404: defaults are for all"},
	)
	for _, path := range []string{"UpstreamConfig.Overrides[]", "UpstreamConfig.Defaults"} {
		list = append(list, upstreamConfig(path)...)
	}
	return list
}

// bothDefaults is what the two kinds of defaults have in common.
func bothDefaults() []Field {
	return []Field{
		{"Meta", Supported, ownData},
		{"Mode", Ignored, sidecar},
		{"TransparentProxy.OutboundListenerPort", Ignored, sidecar},
		{"TransparentProxy.DialedDirectly", InChain, ""},
		{"MutualTLSMode", Ignored, sidecar},
		{"MeshGateway.Mode", Supported, gateways},
		{"Expose.Checks", Ignored, "only Consul's agent knows the paths of checks: list them under Paths"},
		{"Expose.Paths", Supported, "by sidecars"},
		{"EnvoyExtensions", InChain, extensions},
	}
}

func upstreamConfig(path string) []Field {
	return []Field{
		{path + ".Partition", Rejected, enterprise},
		{path + ".Namespace", Rejected, enterprise},
		{path + ".Peer", Ignored, "cluster peering is not supported"},
		{path + ".EnvoyListenerJSON", Ignored, "listeners are not replaced"},
		{path + ".EnvoyClusterJSON", Ignored, "clusters are not replaced"},
		{path + ".Protocol", Supported, "as an override of the chain"},
		{path + ".ConnectTimeoutMs", Supported, "as an override of the chain"},
		{path + ".Limits", Supported, ""},
		{path + ".PassiveHealthCheck", Supported, ""},
		{path + ".MeshGateway.Mode", Supported, "as an override of the chain; " + gateways},
		{path + ".BalanceOutboundConnections", Supported, "`exact_balance`"},
	}
}

func serviceRouter() []Field {
	return []Field{
		{"Name", Supported, ""},
		{"Meta", Supported, ownData},
		{"Routes[].Match", Supported, ""},
		{"Routes[].Match.HTTP.PathRegex", Supported, "CAT1109 warns of one that does not compile"},
		{"Routes[].Destination", Supported, ""},
		{"Routes[].Destination.Namespace", InChain, "part of the target's names, as in Consul"},
		{"Routes[].Destination.Partition", InChain, "part of the target's names, as in Consul"},
	}
}

func serviceSplitter() []Field {
	return []Field{
		{"Name", Supported, ""},
		{"Meta", Supported, ownData},
		{"Splits[]", Supported, ""},
		{"Splits[].Weight", Supported, "in steps of 0.01, in sum 100"},
		{"Splits[].Namespace", Ignored, inEnterprise},
		{"Splits[].Partition", Ignored, inEnterprise},
	}
}

func serviceResolver() []Field {
	return []Field{
		{"Name", Supported, ""},
		{"Meta", Supported, ownData},
		{"DefaultSubset", Supported, ""},
		{"Subsets{}", Supported, ""},
		{"Redirect", Supported, ""},
		{"Redirect.Namespace", Rejected, enterprise},
		{"Redirect.Partition", Rejected, enterprise},
		{"Redirect.SamenessGroup", Rejected, enterprise},
		{"Redirect.Peer", InChain, peering},
		{"Failover{}", Supported, ""},
		{"Failover{}.Namespace", Rejected, enterprise},
		{"Failover{}.SamenessGroup", Rejected, enterprise},
		{"Failover{}.Policy.Mode", Rejected, enterprise},
		{"Failover{}.Policy.Regions", InChain, inEnterprise},
		{"Failover{}.Targets[].Namespace", Rejected, enterprise},
		{"Failover{}.Targets[].Partition", Rejected, enterprise},
		{"Failover{}.Targets[].Peer", InChain, "cluster peering is not supported: such a target is left out"},
		{"ConnectTimeout", Supported, "left out, it means 5 s"},
		{"RequestTimeout", Supported, "where the chain has no router"},
		{"PrioritizeByLocality.Mode", Rejected, enterprise},
		{"LoadBalancer", Supported, ""},
	}
}

func serviceIntentions() []Field {
	return []Field{
		{"Name", Supported, "the destination; `*` for all services"},
		{"Meta", Supported, ownData},
		{"Sources[]", Supported, ""},
		{"Sources[].Name", Supported, "`*` for all services"},
		{"Sources[].Peer", Denied, "cluster peering is not supported, so the source cannot connect"},
		{"Sources[].Partition", Rejected, enterprise},
		{"Sources[].Namespace", Rejected, enterprise},
		{"Sources[].SamenessGroup", Rejected, enterprise},
		{"Sources[].Permissions[]", Supported, "the first that matches decides"},
		{"Sources[].Permissions[].JWT", Denied, tokens},
		{"Sources[].Precedence", Supported, "worked out from the names, whatever it says"},
		{"Sources[].Type", Supported, "`consul`"},
		{"Sources[].Description", Supported, ownData},
		{"Sources[].LegacyID", Supported, legacy},
		{"Sources[].LegacyMeta", Rejected, "CAT1711: it is of an older interface"},
		{"Sources[].LegacyCreateTime", Supported, legacy},
		{"Sources[].LegacyUpdateTime", Supported, legacy},
		{"JWT", Denied, tokens},
	}
}

const legacy = "dropped, as in Consul"

func mesh() []Field {
	return []Field{
		{"Name", Supported, "`mesh`, or left out"},
		{"Meta", Supported, ownData},
		{"TransparentProxy", Ignored, "transparent proxies are not served yet"},
		{"AllowEnablingPermissiveMutualTLS", Ignored, "mutual TLS is always strict"},
		{"ValidateClusters", Supported, "by sidecars, of all routes"},
		{"TLS", Supported, ""},
		{"HTTP", Supported, ""},
		{"Peering", Ignored, "cluster peering is not supported"},
	}
}
