package snapshot

import (
	"cmp"
	"strings"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// central is what config entries say of the upstreams of a client. Consul has merged it into what it tells of
// a registration, and then it adds nothing.
type central struct {
	upstreams chain.UpstreamConfiguration
	// gateway is the mode of mesh gateways of the client's service, or of all.
	gateway chain.MeshGatewayMode
	// proxies is the free-form configuration of all proxies, inbound what there is of it in the entries.
	proxies map[string]any
	inbound InboundConfig
}

// centralOf reads what concerns a client: only one of the mesh has to do with gateways, and with the entry
// about all proxies.
func centralOf(e chain.Entries, kind Kind, service string) central {
	var c central
	d, _ := e.Entry(chain.KindServiceDefaults, service).(*chain.ServiceDefaults)
	if d != nil && d.UpstreamConfig != nil {
		c.upstreams = *d.UpstreamConfig
	}
	if kind != Mesh {
		return c
	}
	if d != nil {
		c.gateway, c.inbound = d.MeshGateway.Mode, fromServiceDefaults(d)
	}
	if p, ok := e.Entry(chain.KindProxyDefaults, chain.GlobalName).(*chain.ProxyDefaults); ok {
		c.gateway = cmp.Or(c.gateway, p.MeshGateway.Mode)
		c.proxies = p.Config
		all, _ := fromProxyConfig(p.Config)
		c.inbound = c.inbound.or(all)
	}
	return c
}

// upstream returns the configuration of an upstream: what the registration says of it, then the overrides of
// its name, of which later ones precede, then the defaults. proxy is the mode of mesh gateways that the
// registration names for all its upstreams: it yields to overrides only.
func (c central) upstream(u Upstream, proxy chain.MeshGatewayMode) UpstreamConfig {
	var overrides UpstreamConfig
	for _, o := range c.upstreams.Overrides {
		if o != nil && o.Name == u.Service && strings.EqualFold(o.Peer, u.peer) {
			overrides = fromEntry(o).or(overrides)
		}
	}
	out := u.Config.or(overrides)
	out.MeshGateway = cmp.Or(out.MeshGateway, proxy)
	if c.upstreams.Defaults != nil {
		out = out.or(fromEntry(c.upstreams.Defaults))
	}
	out.MeshGateway = cmp.Or(out.MeshGateway, c.gateway)
	return out
}

// settings are those of a sidecar for all its upstreams. The size of headers is the same for what comes in.
func (c central) settings(p *facts.Proxy) Settings {
	own, _ := fromProxyConfig(p.Config)
	return Settings{FetchTimeout: c.fetchTimeout(p), MaxRequestHeadersKB: own.or(c.inbound).MaxRequestHeadersKB}
}

// fetchTimeout is how long a sidecar waits for endpoints and routes; what does not fit counts as unset.
func (c central) fetchTimeout(p *facts.Proxy) Timeout {
	value, ok := setting(p.Config, "xds_fetch_timeout_ms")
	if !ok {
		value, ok = setting(c.proxies, "xds_fetch_timeout_ms")
	}
	var t Timeout
	if !ok || t.set(value) != nil {
		return Timeout{}
	}
	return t
}

// setting looks a key of free-form configuration up. Consul minds its underscores, and not its letters' case.
func setting(config map[string]any, key string) (any, bool) {
	if value, ok := config[key]; ok {
		return value, true
	}
	for k, value := range config {
		if strings.EqualFold(k, key) {
			return value, true
		}
	}
	return nil, false
}

// relabelled is the protocol that an upstream gets from the entry about all proxies where the service's own
// defaults are there and name none: Consul takes the chain of such a service for tcp, and then has it called
// by that protocol.
func relabelled(e chain.Entries, service string) string {
	d, ok := e.Entry(chain.KindServiceDefaults, service).(*chain.ServiceDefaults)
	if !ok || d.Protocol != "" {
		return ""
	}
	p, ok := e.Entry(chain.KindProxyDefaults, chain.GlobalName).(*chain.ProxyDefaults)
	if !ok {
		return ""
	}
	protocol, _ := setting(p.Config, "protocol")
	text, _ := protocol.(string)
	return strings.ToLower(text)
}
