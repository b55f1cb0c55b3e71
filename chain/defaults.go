package chain

import "time"

// ProxyDefaults is the proxy-defaults entry: what holds for every proxy unless a service says otherwise.
type ProxyDefaults struct {
	Header
	Mode                 string                `json:",omitempty"`
	TransparentProxy     *TransparentProxy     `json:",omitempty"`
	MutualTLSMode        string                `json:",omitempty"`
	Config               map[string]any        `json:",omitempty"`
	MeshGateway          MeshGateway           `json:",omitzero"`
	Expose               Expose                `json:",omitzero"`
	AccessLogs           *AccessLogs           `json:",omitempty"`
	EnvoyExtensions      []EnvoyExtension      `json:",omitempty"`
	FailoverPolicy       *FailoverPolicy       `json:",omitempty"`
	PrioritizeByLocality *PrioritizeByLocality `json:",omitempty"`
}

// ServiceDefaults is the service-defaults entry of one service.
type ServiceDefaults struct {
	Header
	Protocol                  string                 `json:",omitempty"`
	Mode                      string                 `json:",omitempty"`
	TransparentProxy          *TransparentProxy      `json:",omitempty"`
	MutualTLSMode             string                 `json:",omitempty"`
	MeshGateway               MeshGateway            `json:",omitzero"`
	Expose                    Expose                 `json:",omitzero"`
	ExternalSNI               string                 `json:",omitempty"`
	UpstreamConfig            *UpstreamConfiguration `json:",omitempty"`
	Destination               *EgressDestination     `json:",omitempty"`
	MaxInboundConnections     int                    `json:",omitempty"`
	LocalConnectTimeoutMs     int                    `json:",omitempty"`
	LocalRequestTimeoutMs     int                    `json:",omitempty"`
	BalanceInboundConnections string                 `json:",omitempty"`
	MaxRequestHeadersKB       *uint32                `json:",omitempty"`
	RateLimits                *RateLimits            `json:",omitempty"`
	EnvoyExtensions           []EnvoyExtension       `json:",omitempty"`
}

// MeshGatewayMode says through which mesh gateways traffic to another datacenter goes.
type MeshGatewayMode string

// The modes of a mesh gateway. The empty mode leaves the choice to the next layer.
const (
	MeshGatewayDefault MeshGatewayMode = ""
	MeshGatewayNone    MeshGatewayMode = "none"
	MeshGatewayLocal   MeshGatewayMode = "local"
	MeshGatewayRemote  MeshGatewayMode = "remote"
)

// MeshGateway is the mesh gateway setting of an entry, an upstream or a target.
type MeshGateway struct {
	Mode MeshGatewayMode `json:",omitempty"`
}

// TransparentProxy is the transparent proxy setting of an entry.
type TransparentProxy struct {
	// OutboundListenerPort is where captured outbound traffic arrives; 0 means Consul's default.
	OutboundListenerPort int `json:",omitempty"`
	// DialedDirectly allows other proxies to dial each instance at its own address.
	DialedDirectly bool `json:",omitempty"`
}

// Expose lists paths a sidecar serves without mutual TLS.
type Expose struct {
	Checks bool         `json:",omitempty"`
	Paths  []ExposePath `json:",omitempty"`
}

// ExposePath is one exposed path.
type ExposePath struct {
	ListenerPort    int    `json:",omitempty"`
	Path            string `json:",omitempty"`
	LocalPathPort   int    `json:",omitempty"`
	Protocol        string `json:",omitempty"`
	ParsedFromCheck bool   `json:",omitempty"`
}

// AccessLogs is the access log setting of proxy-defaults.
type AccessLogs struct {
	Enabled             bool   `json:",omitempty"`
	DisableListenerLogs bool   `json:",omitempty"`
	Type                string `json:",omitempty"`
	Path                string `json:",omitempty"`
	JSONFormat          string `json:",omitempty"`
	TextFormat          string `json:",omitempty"`
}

// EnvoyExtension is one extension to apply to a proxy's resources. Its five fields are always printed.
type EnvoyExtension struct {
	Name          string
	Required      bool
	Arguments     map[string]any
	ConsulVersion string
	EnvoyVersion  string
}

// UpstreamConfiguration is how the proxies of a service treat their upstreams.
type UpstreamConfiguration struct {
	// Overrides are per upstream; Name is required in each.
	Overrides []*UpstreamConfig `json:",omitempty"`
	// Defaults holds for every upstream without an override; its Name is empty.
	Defaults *UpstreamConfig `json:",omitempty"`
}

// UpstreamConfig is how a proxy treats one upstream.
type UpstreamConfig struct {
	Name                       string              `json:",omitempty"`
	Partition                  string              `json:",omitempty"`
	Namespace                  string              `json:",omitempty"`
	Peer                       string              `json:",omitempty"`
	EnvoyListenerJSON          string              `json:",omitempty"`
	EnvoyClusterJSON           string              `json:",omitempty"`
	Protocol                   string              `json:",omitempty"`
	ConnectTimeoutMs           int                 `json:",omitempty"`
	Limits                     *UpstreamLimits     `json:",omitempty"`
	PassiveHealthCheck         *PassiveHealthCheck `json:",omitempty"`
	MeshGateway                MeshGateway         `json:",omitzero"`
	BalanceOutboundConnections string              `json:",omitempty"`
}

// UpstreamLimits are a proxy's circuit breakers towards one upstream; nil means Envoy's default.
type UpstreamLimits struct {
	MaxConnections        *int `json:",omitempty"`
	MaxPendingRequests    *int `json:",omitempty"`
	MaxConcurrentRequests *int `json:",omitempty"`
}

// PassiveHealthCheck is a proxy's outlier detection towards one upstream; nil means Envoy's default.
type PassiveHealthCheck struct {
	Interval                time.Duration `json:",omitempty"`
	MaxFailures             uint32        `json:",omitempty"`
	EnforcingConsecutive5xx *uint32       `json:",omitempty"`
	// MaxEjectionPercent is 0 to 100.
	MaxEjectionPercent *uint32        `json:",omitempty"`
	BaseEjectionTime   *time.Duration `json:",omitempty"`
}

// EgressDestination is an address outside the mesh that a service stands for.
type EgressDestination struct {
	Addresses []string `json:",omitempty"`
	Port      int      `json:",omitempty"`
}

// RateLimits are the request limits of a service's instances. Consul acts on them in Enterprise only.
type RateLimits struct {
	InstanceLevel InstanceLevelRateLimits `json:",omitzero"`
}

// InstanceLevelRateLimits are the limits of each instance.
type InstanceLevelRateLimits struct {
	RequestsPerSecond int              `json:",omitempty"`
	RequestsMaxBurst  int              `json:",omitempty"`
	Routes            []RouteRateLimit `json:",omitempty"`
}

// RouteRateLimit is the limit of the requests that match one path.
type RouteRateLimit struct {
	PathExact         string `json:",omitempty"`
	PathPrefix        string `json:",omitempty"`
	PathRegex         string `json:",omitempty"`
	RequestsPerSecond int    `json:",omitempty"`
	RequestsMaxBurst  int    `json:",omitempty"`
}
