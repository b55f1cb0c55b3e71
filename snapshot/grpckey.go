package snapshot

import "strings"

// APIListenerKey is what a gRPC client gets under a name that it asks for. It reads no facts.
type APIListenerKey struct {
	// Name is as the client asks.
	Name string
	// Routes is the name of its routes; empty where there are none, so that every call fails at once.
	Routes string
	// Unhosted is how it says that there are none.
	Unhosted Unhosted
}

// GRPCRoutesKey is the routes of a service for gRPC clients, under whatever names they ask for it.
type GRPCRoutesKey struct {
	// Name is that of the route configuration.
	Name  string
	Chain ChainKey
	// Unhosted is how they say that there are none, of a chain that never compiled.
	Unhosted Unhosted
}

// GRPCClusterKey is a cluster of one target's endpoints for gRPC clients, whose set has the same name. It
// holds only what such clients heed, and reads no facts.
type GRPCClusterKey struct {
	Name         string
	LoadBalancer LoadBalancer
	// MaxRequests is how many calls one client has open at a time.
	MaxRequests Limit
	Outlier     Outlier
	Transport   Transport
}

// GRPCAggregateKey is a cluster that fails over along its children, for gRPC clients. It reads no facts.
type GRPCAggregateKey struct {
	Name string
	// LoadBalancer is that of the children: gRPC takes it from here.
	LoadBalancer LoadBalancer
	children     string
}

// Children returns the names of the member clusters in order of preference.
func (k GRPCAggregateKey) Children() []string { return strings.Split(k.children, "\n") }

// Product implements [Key].
func (APIListenerKey) Product() string { return ProductListener }

// Product implements [Key].
func (GRPCRoutesKey) Product() string { return ProductRoutes }

// Product implements [Key].
func (GRPCClusterKey) Product() string { return ProductCluster }

// Product implements [Key].
func (GRPCAggregateKey) Product() string { return ProductCluster }
