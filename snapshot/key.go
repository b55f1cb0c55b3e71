package snapshot

import (
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// Key names a product by everything that goes into it, beside the facts. Keys are comparable: equal
// keys are one product, made once for everyone who has it.
type Key interface {
	// Product is the kind of product, as metrics call it.
	Product() string
}

// The kinds of products a client receives.
const (
	ProductEndpoints = "endpoints"
	ProductCluster   = "cluster"
	ProductRoutes    = "routes"
	ProductListener  = "listener"
	ProductSecret    = "secret"
	ProductExtension = "extension"
)

// ChainKey is a compiled chain.
type ChainKey struct {
	Service, Datacenter string
	Overrides           chain.Overrides
}

// EndpointSetKey is the endpoints of a target. It holds no target ID, which is a name that is valid
// within one compilation only.
type EndpointSetKey struct {
	Topic       facts.Topic
	Filter      string
	OnlyPassing bool
	// WAN asks for the addresses by which another datacenter reaches the instances.
	WAN bool
	// Gateways is set where the instances are reached through mesh gateways: then it is these that are
	// dialled, and WAN is about them.
	Gateways facts.Topic
}

// LoadBalancer is a load-balancing policy in comparable form.
type LoadBalancer struct {
	Policy               string
	MinRing, MaxRing     uint64
	LeastRequestsChoices uint32
}

// ClusterKey is a cluster of one target's endpoints, whose set has the same name. It reads no facts: the key
// is the product.
type ClusterKey struct {
	Name           string
	ConnectTimeout time.Duration
	// FetchTimeout is how long Envoy waits for the endpoints.
	FetchTimeout Timeout
	// Protocol is the chain's: http2 and grpc are spoken with prior knowledge.
	Protocol     string
	LoadBalancer LoadBalancer
	Limits       Limits
	Outlier      Outlier
	Transport    Transport
	// Child marks a member of an aggregate cluster.
	Child bool
}

// AggregateKey is a cluster that fails over along its children. It reads no facts.
type AggregateKey struct {
	Name           string
	ConnectTimeout time.Duration
	children       string
}

// NewAggregateKey returns the key of a cluster that tries the children in order.
func NewAggregateKey(name string, timeout time.Duration, children []string) AggregateKey {
	return AggregateKey{Name: name, ConnectTimeout: timeout, children: strings.Join(children, "\n")}
}

// Children returns the names of the member clusters in order of preference.
func (k AggregateKey) Children() []string { return strings.Split(k.children, "\n") }

// RoutesKey is the routes of an upstream with a layer-7 protocol.
type RoutesKey struct {
	// Name is that of the route configuration.
	Name  string
	Chain ChainKey
	// ValidateClusters has Envoy refuse the routes while a cluster of theirs does not exist.
	ValidateClusters bool
}

// ListenerKey is the listener of an upstream. With a layer-7 protocol it refers to the routes of its
// name; else it forwards connections along the chain.
type ListenerKey struct {
	// EnvoyID is the upstream's, which is also the name of its routes.
	EnvoyID string
	Bind    Bind
	// ExactBalance spreads connections evenly over Envoy's threads.
	ExactBalance bool
	// Settings are set for protocols of layer 7 only.
	Settings   Settings
	AccessLogs chain.AccessLogs
	// Protocol is the chain's.
	Protocol string
	// Chain is set for protocols below layer 7 only.
	Chain ChainKey
	// StatPrefix is how Envoy's statistics call it.
	StatPrefix string
}

// Bind is where the proxy of a client listens for an upstream: at an address and port, or on a socket.
type Bind struct {
	Address string
	Port    int
	// SocketPath is set for a socket; SocketMode is 0 where it is left to Envoy.
	SocketPath string
	SocketMode uint32
}

// String returns the path of a socket, or the address and port.
func (b Bind) String() string {
	if b.SocketPath != "" {
		return b.SocketPath
	}
	return net.JoinHostPort(b.Address, strconv.Itoa(b.Port))
}

// ListenerName is the name of an upstream's listener, as Consul forms it.
func ListenerName(envoyID string, bind Bind) string { return envoyID + ":" + bind.String() }

// Product implements [Key].
func (EndpointSetKey) Product() string { return ProductEndpoints }

// Product implements [Key].
func (ClusterKey) Product() string { return ProductCluster }

// Product implements [Key].
func (AggregateKey) Product() string { return ProductCluster }

// Product implements [Key].
func (RoutesKey) Product() string { return ProductRoutes }

// Product implements [Key].
func (ListenerKey) Product() string { return ProductListener }
