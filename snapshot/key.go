package snapshot

import (
	"fmt"
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
}

// LoadBalancer is a load-balancing policy in comparable form.
type LoadBalancer struct {
	Policy               string
	MinRing, MaxRing     uint64
	LeastRequestsChoices uint32
}

// ClusterKey is a cluster of one target's endpoints. It reads no facts: the key is the product.
type ClusterKey struct {
	// Name is the cluster's, Endpoints the name of its endpoint set.
	Name, Endpoints string
	ConnectTimeout  time.Duration
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
	Name                string
	ConnectTimeout      time.Duration
	children, endpoints string
}

// Child is a member of an aggregate cluster: a cluster and its endpoint set, by name.
type Child struct{ Cluster, Endpoints string }

// NewAggregateKey returns the key of a cluster that tries the children in order.
func NewAggregateKey(name string, timeout time.Duration, children []Child) AggregateKey {
	k := AggregateKey{Name: name, ConnectTimeout: timeout}
	clusters, endpoints := make([]string, len(children)), make([]string, len(children))
	for i, c := range children {
		clusters[i], endpoints[i] = c.Cluster, c.Endpoints
	}
	k.children, k.endpoints = strings.Join(clusters, "\n"), strings.Join(endpoints, "\n")
	return k
}

// Children returns the names of the member clusters in order of preference.
func (k AggregateKey) Children() []string { return strings.Split(k.children, "\n") }

// Endpoints returns the names of the members' endpoint sets, in the same order.
func (k AggregateKey) Endpoints() []string { return strings.Split(k.endpoints, "\n") }

// RoutesKey is the routes of an upstream with a layer-7 protocol.
type RoutesKey struct {
	// Name is that of the route configuration.
	Name  string
	Chain ChainKey
}

// ListenerKey is the listener of an upstream. With a layer-7 protocol it refers to the routes of its
// name; else it forwards connections along the chain.
type ListenerKey struct {
	// EnvoyID is the upstream's, which is also the name of its routes.
	EnvoyID string
	Address string
	Port    int
	// Protocol is the chain's.
	Protocol string
	// Chain is set for protocols below layer 7 only.
	Chain ChainKey
	// StatPrefix is how Envoy's statistics call it.
	StatPrefix string
}

// ListenerName is the name of an upstream's listener, as Consul forms it.
func ListenerName(envoyID, address string, port int) string {
	return fmt.Sprintf("%s:%s:%d", envoyID, address, port)
}

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
