package entry

import (
	"time"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// The node that services of files are on. Consul would have the agent's own.
const (
	nodeName    = "files"
	nodeAddress = "127.0.0.1"
)

// kindProxy is the kind of a sidecar.
const kindProxy = "connect-proxy"

// definition is a service definition as Consul's agent reads it, and the node it is on.
type definition struct {
	Node              string
	Kind              string
	ID                string
	Name              string
	Tags              []string
	Address           string
	SocketPath        string
	Port              int
	TaggedAddresses   map[string]facts.Address
	Meta              map[string]string
	Weights           weights
	Check             *check
	Checks            []check
	Token             string
	EnableTagOverride bool
	Locality          *facts.Locality
	Connect           *connect
	Proxy             *proxy
}

type connect struct {
	Native         bool
	SidecarService *definition
}

type proxy struct {
	DestinationServiceName string
	DestinationServiceID   string
	LocalServiceAddress    string
	LocalServicePort       int
	LocalServiceSocketPath string
	Mode                   string
	TransparentProxy       *chain.TransparentProxy
	MutualTLSMode          string
	Config                 map[string]any
	Upstreams              []upstream
	MeshGateway            chain.MeshGateway
	Expose                 chain.Expose
	AccessLogs             *chain.AccessLogs
	EnvoyExtensions        []chain.EnvoyExtension
}

type upstream struct {
	DestinationType      string
	DestinationName      string
	DestinationNamespace string
	DestinationPartition string
	DestinationPeer      string
	Datacenter           string
	LocalBindAddress     string
	LocalBindPort        int
	LocalBindSocketPath  string
	LocalBindSocketMode  string
	Config               map[string]any
	MeshGateway          chain.MeshGateway
}

// weights are 1 unless given.
type weights struct{ Passing, Warning *int }

// check is what counts of a check: nobody runs checks of files, so their status is as written. Like
// Consul's, a check without a status is critical.
type check struct {
	ID      string
	CheckID string
	Name    string
	Notes   string
	Status  facts.CheckStatus

	HTTP, TCP, GRPC       string
	Method, Body          string
	Header                map[string][]string
	TCPUseTLS, GRPCUseTLS bool
	Interval, Timeout     time.Duration
}

// dropped are the settings of how an agent would run the check that checkers of health discovery have no use for
// either. They are accepted and mean nothing here.
func (check) dropped() []string {
	return []string{
		"args", "script_args", "h2ping", "h2ping_use_tls", "udp", "ttl",
		"disable_redirects", "tls_server_name", "tls_skip_verify", "alias_node", "alias_service",
		"docker_container_id", "shell", "os_service", "output", "output_max_size", "proxy_http",
		"proxy_grpc", "success_before_passing", "failures_before_warning",
		"failures_before_critical", "deregister_critical_service_after", "service_id", "token",
	}
}
