// Package chain compiles Consul's discovery chains: config entries and a request go in, a compiled
// chain or the problems that prevent one come out.
//
// It is pure and may be used as a library on its own: no I/O, clock, log, goroutine or Consul client.
// The rules are those observed with Consul 1.22.5, Community Edition.
package chain

import (
	"strings"
	"time"
)

// Request is what to compile.
type Request struct {
	// Service is the name of the chain. Its case is kept in the output.
	Service string
	// Datacenter is the basis for every entry that names none.
	Datacenter string
	// TrustDomain ends every SNI, such as "<uuid>.consul"; it is lower-cased.
	TrustDomain string
	// Overrides are the downstream's wishes; the zero value has none.
	Overrides Overrides
	// AutoVirtualIPs and ManualVirtualIPs are copied to the output.
	AutoVirtualIPs, ManualVirtualIPs []string
}

// Overrides are what a downstream asks of a chain beyond its entries. They are comparable and so can
// be part of a key.
type Overrides struct {
	// Protocol replaces the chain's protocol; one below layer 7 strips routers and splitters.
	Protocol string
	// ConnectTimeout replaces every target's connect timeout when above 0.
	ConnectTimeout time.Duration
	// MeshGateway replaces every target's mesh gateway mode when not empty.
	MeshGateway MeshGatewayMode
}

// Chain is a compiled discovery chain: a directed graph of nodes that ends in targets. Its JSON is
// that of Consul's /v1/discovery-chain. It is immutable and shared.
type Chain struct {
	ServiceName string
	Namespace   string
	Partition   string
	Datacenter  string
	// CustomizationHash is set when overrides changed the outcome: 8 hexadecimal digits.
	CustomizationHash string `json:",omitempty"`
	// Default holds when no router, splitter or resolver took part.
	Default bool `json:",omitempty"`
	// Protocol is tcp, http, http2, grpc, or whatever else proxy-defaults names.
	Protocol        string            `json:",omitempty"`
	ServiceMeta     map[string]string `json:",omitempty"`
	EnvoyExtensions []EnvoyExtension  `json:",omitempty"`
	// StartNode is the key in Nodes where traversal begins.
	StartNode string             `json:",omitempty"`
	Nodes     map[string]*Node   `json:",omitempty"`
	Targets   map[string]*Target `json:",omitempty"`
	// AutoVirtualIPs and ManualVirtualIPs print as null without a virtual IP.
	AutoVirtualIPs   []string
	ManualVirtualIPs []string
}

// The types of a [Node].
const (
	NodeRouter   = "router"
	NodeSplitter = "splitter"
	NodeResolver = "resolver"
)

// Node is one node of the graph; exactly one of Routes, Splits and Resolver is set, by its Type.
type Node struct {
	Type     string
	Name     string
	Routes   []*Route  `json:",omitempty"`
	Splits   []*Split  `json:",omitempty"`
	Resolver *Resolver `json:",omitempty"`
	// LoadBalancer is that of the resolver, or for a splitter the first hash-based one of its legs.
	LoadBalancer *LoadBalancer `json:",omitempty"`
}

// Route is one route of a router node.
type Route struct {
	Definition *ServiceRoute `json:",omitempty"`
	NextNode   string        `json:",omitempty"`
}

// Split is one leg of a splitter node.
type Split struct {
	Definition *ServiceSplit `json:",omitempty"`
	// Weight is the effective percentage after flattening.
	Weight   float32 `json:",omitempty"`
	NextNode string  `json:",omitempty"`
}

// Resolver is the body of a resolver node.
type Resolver struct {
	Default        bool `json:",omitempty"`
	ConnectTimeout time.Duration
	RequestTimeout time.Duration `json:",omitempty"`
	// Target is the key in Targets.
	Target   string
	Failover *ResolverFailover `json:",omitempty"`
}

// ResolverFailover lists where to go when the target has no healthy instance.
type ResolverFailover struct {
	// Targets are keys in the chain's Targets, in order of preference.
	Targets []string        `json:",omitempty"`
	Policy  *FailoverPolicy `json:",omitempty"`
}

// Target is a set of instances.
type Target struct {
	ID            string
	Service       string `json:",omitempty"`
	ServiceSubset string `json:",omitempty"`
	Namespace     string `json:",omitempty"`
	Partition     string `json:",omitempty"`
	Datacenter    string `json:",omitempty"`
	Peer          string `json:",omitempty"`

	MeshGateway      MeshGateway
	Subset           Subset
	TransparentProxy TransparentProxy
	ConnectTimeout   time.Duration
	// External marks a service outside the mesh that has its own SNI.
	External bool `json:",omitempty"`
	// SNI is what to ask for in a TLS handshake; Name is the same before ExternalSNI replaces it.
	SNI  string `json:",omitempty"`
	Name string `json:",omitempty"`

	PrioritizeByLocality *PrioritizeByLocality `json:",omitempty"`
}

// Problem is one thing that is wrong with the configuration, or would better be changed.
type Problem struct {
	// Code is stable and documented, such as "CAT1001"; docs/codes.md lists them.
	Code string
	// Severity is "error" or "warning".
	Severity string
	// Entry names the entry at fault, as kind/name; empty when no single one is.
	Entry string `json:",omitempty"`
	// Origin is where the entry was read, such as "shop.hcl:12".
	Origin string `json:",omitempty"`
	// Field is the path within the entry, such as "Routes[2].Match.HTTP.PathRegex".
	Field string `json:",omitempty"`
	// Message says what is wrong, and what to do where that is not plain.
	Message string
}

// IsError reports whether the problem keeps what it is about from being used.
func (p Problem) IsError() bool { return p.Severity == SeverityError }

// String returns the problem in one line: where, what, and the code to look up.
func (p Problem) String() string {
	var b strings.Builder
	for _, part := range []string{p.Origin, p.Entry, p.Field} {
		if part != "" {
			b.WriteString(part + ": ")
		}
	}
	b.WriteString(p.Message)
	if p.Code != "" {
		b.WriteString(" (" + p.Code + ")")
	}
	return b.String()
}
