package facts

import (
	"time"

	"github.com/catenary-mesh/catenary/chain"
)

// Instance is a row of Consul's catalog with its health: one registration of a service. Its shape is
// that of a health entry in Consul's API, because subset filters are written against that shape
// (Service.Meta.version == "v2"). It is immutable and shared.
type Instance struct {
	Node    Node
	Service Service
	Checks  []Check
}

// Node is the node an instance runs on.
type Node struct {
	ID              string
	Node            string
	Address         string
	Datacenter      string
	TaggedAddresses map[string]string
	Meta            map[string]string
	Locality        *Locality
	ModifyIndex     uint64 `bexpr:"-"`
}

// Service is the registration proper.
type Service struct {
	// Kind is empty for a plain service, connect-proxy for a sidecar.
	Kind              string
	ID                string
	Service           string
	Tags              []string
	Address           string
	Port              int
	TaggedAddresses   map[string]Address
	Meta              map[string]string
	Weights           Weights
	EnableTagOverride bool
	Proxy             *Proxy
	Connect           Native
	Locality          *Locality
	ModifyIndex       uint64 `bexpr:"-"`
}

// Address is a tagged address of a service.
type Address struct {
	Address string
	Port    int
}

// Weights are an instance's load-balancing weights by the worst state of its checks.
type Weights struct {
	Passing int
	Warning int
}

// Native says whether the instance speaks the mesh protocol itself.
type Native struct {
	Native bool
}

// Locality is where an instance runs.
type Locality struct {
	Region string
	Zone   string
}

// CheckStatus is the status of a check, in Consul's words.
type CheckStatus string

// The statuses of a check. A node or service in maintenance has a critical check whose ID is
// _node_maintenance or begins with _service_maintenance.
const (
	StatusPassing  CheckStatus = "passing"
	StatusWarning  CheckStatus = "warning"
	StatusCritical CheckStatus = "critical"
)

// Check is one check of an instance or of its node.
type Check struct {
	Node        string
	CheckID     string
	Name        string
	Status      CheckStatus
	Notes       string
	ServiceID   string
	ServiceName string
	ServiceTags []string
	Type        string
	// Definition is how the check is done, where the source says so; it is nil where it does not, as for the checks
	// of Consul's agents.
	Definition  *CheckDefinition `bexpr:"-"`
	ModifyIndex uint64           `bexpr:"-"`
}

// CheckDefinition is how a check is done. Of HTTP, TCP and GRPC one is set.
type CheckDefinition struct {
	// HTTP is a URL, TCP host:port, and GRPC host:port or host:port/service.
	HTTP, TCP, GRPC string
	Method, Body    string
	Header          map[string][]string
	// TLS is set for TCP and GRPC through TLS.
	TLS               bool
	Interval, Timeout time.Duration
}

// Proxy is what a sidecar's registration says about its work, central configuration merged.
type Proxy struct {
	DestinationServiceName string
	DestinationServiceID   string
	LocalServiceAddress    string
	LocalServicePort       int
	LocalServiceSocketPath string
	Mode                   string
	Config                 map[string]any `bexpr:"-"`
	Upstreams              []Upstream
	MeshGateway            chain.MeshGateway
	Expose                 chain.Expose `bexpr:"-"`
}

// Upstream is one upstream of a registered sidecar.
type Upstream struct {
	// DestinationType is service or prepared_query; empty means service.
	DestinationType      string
	DestinationName      string
	DestinationPeer      string
	Datacenter           string
	LocalBindAddress     string
	LocalBindPort        int
	LocalBindSocketPath  string
	LocalBindSocketMode  string
	Config               map[string]any `bexpr:"-"`
	MeshGateway          chain.MeshGateway
	CentrallyConfigured  bool
	DestinationNamespace string
	DestinationPartition string
}
