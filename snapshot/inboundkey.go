package snapshot

import (
	"time"

	"github.com/catenary-mesh/catenary/chain"
)

// PublicListenerKey is the listener by which the mesh reaches a sidecar's service, over mutual TLS and past
// its intentions. It reads no facts: the key is the product.
type PublicListenerKey struct {
	Address string
	Port    int
	// Protocol is the service's.
	Protocol string
	Limits   InboundLimits
	TLS      TLSParameters
	// Evicts says that the sidecar ends what is open and has come to be forbidden.
	Evicts bool
	// AccessLogs are those of all proxies.
	AccessLogs chain.AccessLogs
	// HTTP is set for protocols of layer 7 only.
	HTTP InboundHTTP
}

// InboundLimits is how a listener takes connections.
type InboundLimits struct {
	// MaxConnections is how many it takes at a time; 0 is any number.
	MaxConnections uint32
	// ExactBalance spreads connections evenly over Envoy's threads.
	ExactBalance bool
}

// InboundHTTP is how a listener treats requests.
type InboundHTTP struct {
	RequestTimeout, IdleTimeout Timeout
	// MaxRequestHeadersKB is Envoy's default when it is 0.
	MaxRequestHeadersKB uint32
	// SanitizeClientCert has the header that says who calls removed instead of added to.
	SanitizeClientCert bool
	Normalization      chain.RequestNormalization
}

// Timeout is a duration that may be unset, which leaves it to Envoy. Zero turns it off.
type Timeout struct {
	Set   bool
	Value time.Duration
}

// LocalClusterKey is a cluster of the service that a sidecar stands before. It reads no facts.
type LocalClusterKey struct {
	Name string
	At   LocalService
	// Protocol is that of what the listener takes.
	Protocol string
	// Explicit says that the service is spoken to by Protocol whatever the client speaks.
	Explicit       bool
	ConnectTimeout time.Duration
	// MaxConnections is Envoy's default when it is 0.
	MaxConnections uint32
}

// ExposedListenerKey is the listener of a path that is reached without the mesh. It reads no facts.
type ExposedListenerKey struct {
	// Name is what listener and statistics are called after.
	Name    string
	Address string
	Port    int
	Path    string
	// Protocol is http or http2.
	Protocol string
	// Cluster is what answers.
	Cluster             string
	MaxRequestHeadersKB uint32
	// LocalOnly lets only this machine in, and Source where it is set.
	LocalOnly  bool
	Source     string
	AccessLogs chain.AccessLogs
}

// Product implements [Key].
func (PublicListenerKey) Product() string { return ProductListener }

// Product implements [Key].
func (LocalClusterKey) Product() string { return ProductCluster }

// Product implements [Key].
func (ExposedListenerKey) Product() string { return ProductListener }

// IntentionsName is the name under which a sidecar finds who may talk to its service: rules about requests, or
// rules about connections. It asks for those that its listeners name.
func IntentionsName(layer7 bool) string {
	if layer7 {
		return IntentionsConfig
	}
	return IntentionsConfig + "-connections"
}

// EvictionConfig is the name under which a sidecar finds who may keep what is open.
const EvictionConfig = IntentionsConfig + "-eviction"
