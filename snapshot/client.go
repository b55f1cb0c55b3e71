package snapshot

// Client is who asks, as far as it decides what is served. Two clients with equal fields get the
// same products.
type Client struct {
	// ID is the node ID. For a sidecar it is the ID of its registration.
	ID string
	// Service is the service the client speaks for.
	Service string
	// Node is the name of the node it runs on, where the client says so.
	Node string
	// Address is the IP address the client connects from. It tells registrations apart that have
	// one ID on several nodes.
	Address string
	// Reader is under which name the client's rights to read services are facts; empty when it may
	// read everything.
	Reader string
	// Proved clients have proved to be the service that they speak for, so that they may have its
	// certificate.
	Proved bool
	// Dialect is what of xDS the client understands.
	Dialect Dialect
	// Names are what a gRPC client asks for, sorted: its upstreams. The other fields about upstreams are
	// for proxies.
	Names []string
	// Mesh says of a gRPC client that it has a certificate of its service, and dials mesh targets by it.
	Mesh bool
	// Wasm clients run modules of WebAssembly.
	Wasm bool
	// Declared clients bring their upstreams themselves; others are looked up among the
	// registrations.
	Declared  bool
	Upstreams []Upstream
}

// Kind says what a client can dial.
type Kind string

// The kinds of clients.
const (
	// Plain clients dial instances at their own address, without identity.
	Plain Kind = "plain"
	// Mesh clients dial sidecars and Connect-native instances.
	Mesh Kind = "mesh"
)

// Upstream is one thing a client wants to reach, and where it wants to find it.
type Upstream struct {
	Service string
	// Datacenter is empty for the control plane's own.
	Datacenter string
	// BindAddress and BindPort are where the client's proxy listens for this upstream.
	BindAddress string
	BindPort    int
	// SocketPath is set where it listens on a socket instead; SocketMode is 0 where it is left to Envoy.
	SocketPath string
	SocketMode uint32
	// Config is the client's own configuration of the upstream; unset fields are taken from the
	// service-defaults of the client's service.
	Config UpstreamConfig

	peer        string
	query       bool   // it is a prepared query
	unsupported string // why it is not served; empty when it is
}

// EnvoyID is the name under which Consul knows the upstream: "api", or "api?dc=dc2".
func (u Upstream) EnvoyID() string {
	id := u.Service
	if u.query {
		id = "prepared_query:" + id
	}
	switch {
	case u.peer != "":
		id += "?peer=" + u.peer
	case u.Datacenter != "":
		id += "?dc=" + u.Datacenter
	}
	return id
}

// Settings are how a sidecar treats all its upstreams. They are comparable and so part of keys.
type Settings struct {
	// FetchTimeout is how long it waits for endpoints and routes.
	FetchTimeout Timeout
	// MaxRequestHeadersKB is Envoy's default when it is 0.
	MaxRequestHeadersKB uint32
}

// Limit is a bound that may be unset. It is comparable.
type Limit struct {
	Set   bool
	Value uint32
}

// Limits are the circuit breakers of a cluster; unset ones are Envoy's defaults.
type Limits struct {
	MaxConnections, MaxPendingRequests, MaxConcurrentRequests Limit
}

// Outlier is the outlier detection of a cluster; unset and zero fields are Envoy's defaults.
type Outlier struct {
	IntervalMs              int64
	MaxFailures             uint32
	EnforcingConsecutive5xx Limit
	MaxEjectionPercent      Limit
	BaseEjectionMs          int64
}
