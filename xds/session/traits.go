package session

import (
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// Features that clients advertise in their node.
const (
	featureTTL  = "xds.config.supports-resource-ttl"
	featureWrap = "xds.config.resource-in-sotw"
	// featureWrapAlso is what the description of the protocol calls it, unlike the list of features.
	featureWrapAlso = "xds.config.supports-resource-in-sotw"
)

// traits are what the session needs to know of the client, of all that its node says.
type traits struct {
	// saysWildcard: it always spells a wildcard out.
	saysWildcard bool
	// leases: it takes resources with a TTL.
	leases bool
}

func traitsOf(n *corev3.Node, form Form) traits {
	has := func(feature string) bool { return slices.Contains(n.GetClientFeatures(), feature) }
	return traits{
		saysWildcard: saysWildcard(n),
		leases:       has(featureTTL) && (form == Delta || has(featureWrap) || has(featureWrapAlso)),
	}
}

// saysWildcard reports whether the client is known to always spell a wildcard out as "*" or as an
// empty list: Envoy does since 1.20. Older ones list on a reconnect what the wildcard had brought
// them (envoy 16063).
func saysWildcard(n *corev3.Node) bool {
	v := n.GetUserAgentBuildVersion().GetVersion()
	return n.GetUserAgentName() == "envoy" && (v.GetMajorNumber() > 1 || v.GetMinorNumber() >= 20)
}
