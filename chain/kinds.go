package chain

// Kind is a config entry kind, spelled as Consul spells it.
type Kind string

// The config entry kinds that a discovery chain is compiled from.
const (
	KindProxyDefaults   Kind = "proxy-defaults"
	KindServiceDefaults Kind = "service-defaults"
	KindServiceRouter   Kind = "service-router"
	KindServiceSplitter Kind = "service-splitter"
	KindServiceResolver Kind = "service-resolver"
)

// GlobalName is the only name a proxy-defaults entry can have.
const GlobalName = "global"

// Kinds lists every kind a chain reads, in the order in which Consul applies them.
func Kinds() []Kind {
	return []Kind{
		KindProxyDefaults, KindServiceDefaults,
		KindServiceRouter, KindServiceSplitter, KindServiceResolver,
	}
}

// New returns an empty entry of the kind, or nil when the kind is not one of [Kinds].
func New(kind Kind) Entry {
	switch kind {
	case KindProxyDefaults:
		return &ProxyDefaults{}
	case KindServiceDefaults:
		return &ServiceDefaults{}
	case KindServiceRouter:
		return &ServiceRouter{}
	case KindServiceSplitter:
		return &ServiceSplitter{}
	case KindServiceResolver:
		return &ServiceResolver{}
	}
	return nil
}
