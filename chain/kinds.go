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

// The other kinds that are read, which are about the mesh.
const (
	KindServiceIntentions Kind = "service-intentions"
	KindMesh              Kind = "mesh"
)

// GlobalName is the only name a proxy-defaults entry can have.
const GlobalName = "global"

// MeshName is the name of the mesh entry, which has none in Consul.
const MeshName = "mesh"

// Kinds lists every kind a chain reads, in the order in which Consul applies them.
func Kinds() []Kind {
	return []Kind{
		KindProxyDefaults, KindServiceDefaults,
		KindServiceRouter, KindServiceSplitter, KindServiceResolver,
	}
}

// AllKinds lists every kind that is read: those of [Kinds], and those about the mesh.
func AllKinds() []Kind { return append(Kinds(), KindServiceIntentions, KindMesh) }

// New returns an empty entry of the kind, or nil when the kind is not one of [AllKinds].
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
	case KindServiceIntentions:
		return &ServiceIntentions{}
	case KindMesh:
		return &Mesh{}
	}
	return nil
}
