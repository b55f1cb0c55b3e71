package chain

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
)

// mutualTLSModes are the modes a proxy may be given; Consul wants its mesh entry to allow permissive.
func mutualTLSModes() []string { return []string{"strict", "permissive"} }

func (f *findings) proxyDefaults(e *ProxyDefaults) {
	if e.Name != "" && e.Name != GlobalName {
		f.fault(CodeNameNotAllowed, "Name", "%q is not a name for proxy-defaults; the only one is %q", e.Name, GlobalName)
	}
	if _, ok := weakString(e.Config["protocol"]); !ok {
		f.fault(CodeConfigProtocol, "Config.protocol", "the protocol must be text such as \"http\"")
	}
	f.proxyMode(e.Mode)
	f.oneOf("MutualTLSMode", e.MutualTLSMode, mutualTLSModes()...)
	f.meshGateway("MeshGateway.Mode", e.MeshGateway.Mode)
	if e.AccessLogs != nil {
		f.accessLogs(e.AccessLogs)
	}
	if p := e.FailoverPolicy; p != nil && !slices.Contains([]string{"", "sequential", "order-by-locality"}, p.Mode) {
		f.fault(CodeFailoverMode, "FailoverPolicy.Mode", "%q is not a mode; use sequential or order-by-locality", p.Mode)
	}
	if e.PrioritizeByLocality != nil {
		f.enterprise("PrioritizeByLocality", "Mode", e.PrioritizeByLocality.Mode)
	}
	f.extensions(e.EnvoyExtensions)
}

func (f *findings) accessLogs(a *AccessLogs) {
	f.oneOf("AccessLogs.Type", a.Type, "file", "stdout", "stderr")
	switch {
	case a.Type == "file" && a.Path == "":
		f.fault(CodeAccessLogs, "AccessLogs.Path", "logs of the type file need a Path")
	case a.Type != "file" && a.Path != "":
		f.fault(CodeAccessLogs, "AccessLogs.Path", "only logs of the type file have a Path")
	}
	if a.JSONFormat != "" && a.TextFormat != "" {
		f.fault(CodeAccessLogs, "AccessLogs", "JSONFormat and TextFormat are both set; keep one")
	}
	if a.JSONFormat != "" && !json.Valid([]byte(a.JSONFormat)) {
		f.fault(CodeAccessLogs, "AccessLogs.JSONFormat", "this is not JSON")
	}
}

func (f *findings) serviceDefaults(e *ServiceDefaults) {
	if e.Name == "*" {
		f.fault(CodeNameNotAllowed, "Name", "service-defaults are for one service; use proxy-defaults for all")
	}
	switch e.Protocol {
	case "", protocolTCP, "http", "http2", "grpc":
	default:
		f.fault(CodeProtocol, "Protocol", "%q is not a protocol of a service; use tcp, http, http2 or grpc", e.Protocol)
	}
	f.proxyMode(e.Mode)
	f.oneOf("MutualTLSMode", e.MutualTLSMode, mutualTLSModes()...)
	f.meshGateway("MeshGateway.Mode", e.MeshGateway.Mode)
	f.oneOf("BalanceInboundConnections", e.BalanceInboundConnections, "exact_balance")
	if e.RateLimits != nil {
		f.fault(CodeEnterprise, "RateLimits", "RateLimits needs Consul Enterprise; leave it out")
	}
	if e.Destination != nil && e.UpstreamConfig != nil {
		f.fault(CodeDestinationUpstream, "UpstreamConfig", "a Destination outside the mesh has no upstreams; keep Destination or UpstreamConfig")
	}
	if e.Destination != nil {
		f.egress(e.Destination)
	}
	if e.UpstreamConfig != nil {
		f.upstreams(e.UpstreamConfig)
	}
	f.extensions(e.EnvoyExtensions)
}

func (f *findings) egress(d *EgressDestination) {
	if len(d.Addresses) == 0 {
		f.fault(CodeDestination, "Destination.Addresses", "the destination has no address; add at least one")
	}
	for i, a := range d.Addresses {
		field := at("Destination.Addresses", i)
		if !isAddress(a) {
			f.fault(CodeDestination, field, "%q is neither an IP address nor a host name; wildcards are not allowed", a)
		}
		if slices.Contains(d.Addresses[:i], a) {
			f.fault(CodeDestination, field, "%q is listed before; leave it out here", a)
		}
	}
	if d.Port < 1 || d.Port > 65535 {
		f.fault(CodeDestination, "Destination.Port", "%d is not a port; use 1 to 65535", d.Port)
	}
}

// isAddress is as lenient as Consul: it looks at the length of the labels and for wildcards only.
func isAddress(a string) bool {
	if _, err := netip.ParseAddr(a); err == nil {
		return true
	}
	if a == "." {
		return true
	}
	if a == "" || len(a) > 254 || strings.Contains(a, "*") {
		return false
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(a, "."), ".") {
		if label == "" || len(label) > 63 {
			return false
		}
	}
	return true
}
