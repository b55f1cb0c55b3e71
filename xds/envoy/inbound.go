package envoy

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	limitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/connection_limit/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/snapshot"
)

// The types of what decides who may talk to a service: of connections, and of requests.
const (
	networkRBAC = "type.googleapis.com/envoy.extensions.filters.network.rbac.v3.RBAC"
	networkWasm = "type.googleapis.com/envoy.extensions.filters.network.wasm.v3.Wasm"
	httpRBAC    = "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC"
)

// inboundFilters is the order of the network filters of a listener for the mesh, with the reason why each is
// where it is.
var inboundFilters = []struct {
	name   string
	config func(snapshot.PublicListenerKey) proto.Message
	when   func(snapshot.PublicListenerKey) bool
}{
	// before anything that looks at a byte of who may not be here
	{snapshot.IntentionsName(false), func(snapshot.PublicListenerKey) proto.Message { return discovered(networkRBAC) }, isTCP},
	// knows who is in, to end it when it may be in no longer
	{tracker, trackConnections, func(k snapshot.PublicListenerKey) bool { return k.Evicts && isTCP(k) }},
	// what is refused above does not count
	{"envoy.filters.network.connection_limit", connectionLimit, func(k snapshot.PublicListenerKey) bool {
		return k.Limits.MaxConnections > 0
	}},
	// end the chain: one of them forwards
	{"envoy.filters.network.http_connection_manager", inboundRequests, func(k snapshot.PublicListenerKey) bool { return !isTCP(k) }},
	{"envoy.filters.network.tcp_proxy", inboundConnections, isTCP},
}

func isTCP(k snapshot.PublicListenerKey) bool { return !chain.IsLayer7(k.Protocol) }

// publicListener translates the listener by which the mesh reaches a service.
func publicListener(k snapshot.PublicListenerKey) *listenerv3.Listener {
	filters := &listenerv3.FilterChain{TransportSocket: inboundTLS(k)}
	for _, f := range inboundFilters {
		if !f.when(k) {
			continue
		}
		filter := &listenerv3.Filter{Name: f.name}
		switch c := f.config(k).(type) {
		case *corev3.ExtensionConfigSource:
			filter.ConfigType = &listenerv3.Filter_ConfigDiscovery{ConfigDiscovery: c}
		default:
			filter.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: pack(c)}
		}
		filters.Filters = append(filters.Filters, filter)
	}
	l := inboundListener(snapshot.PublicListener, k.Address, k.Port, filters)
	if k.Evicts {
		l.FilterChains = append(l.FilterChains, evictionRules())
	}
	if k.Limits.ExactBalance {
		l.ConnectionBalanceConfig = exactBalance()
	}
	return l
}

func exactBalance() *listenerv3.Listener_ConnectionBalanceConfig {
	return &listenerv3.Listener_ConnectionBalanceConfig{
		BalanceType: &listenerv3.Listener_ConnectionBalanceConfig_ExactBalance_{
			ExactBalance: &listenerv3.Listener_ConnectionBalanceConfig_ExactBalance{},
		},
	}
}

func inboundListener(prefix, ip string, port int, filters *listenerv3.FilterChain) *listenerv3.Listener {
	return &listenerv3.Listener{
		Name:             snapshot.InboundListenerName(prefix, ip, port),
		Address:          address(ip, uint32(port)),
		TrafficDirection: corev3.TrafficDirection_INBOUND,
		FilterChains:     []*listenerv3.FilterChain{filters},
	}
}

// discovered is a filter that comes over the same stream under the filter's name. It has no default: nothing
// passes before it is there.
func discovered(url string) *corev3.ExtensionConfigSource {
	return &corev3.ExtensionConfigSource{ConfigSource: fromADS(), TypeUrls: []string{url}}
}

// inboundTLS asks for a certificate of the mesh. Certificate and roots are named, so that new ones touch no
// listener.
func inboundTLS(k snapshot.PublicListenerKey) *corev3.TransportSocket {
	common := commonTLS(k.TLS)
	common.AlpnProtocols = alpn(k.Protocol)
	common.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContextSdsSecretConfig{
		ValidationContextSdsSecretConfig: secret(snapshot.RootsSecret),
	}
	return socketTLS(&tlsv3.DownstreamTlsContext{
		CommonTlsContext: common, RequireClientCertificate: wrapperspb.Bool(true),
	})
}

// alpn is what a listener offers to speak.
func alpn(protocol string) []string {
	switch protocol {
	case "http2", "grpc":
		return []string{"h2", "http/1.1"}
	case "http":
		return []string{"http/1.1"}
	}
	return nil
}

func connectionLimit(k snapshot.PublicListenerKey) proto.Message {
	return &limitv3.ConnectionLimit{
		StatPrefix:     "inbound_connection_limit",
		MaxConnections: wrapperspb.UInt64(uint64(k.Limits.MaxConnections)),
	}
}

func inboundConnections(snapshot.PublicListenerKey) proto.Message {
	return &tcpv3.TcpProxy{
		StatPrefix:       snapshot.PublicListener,
		ClusterSpecifier: &tcpv3.TcpProxy_Cluster{Cluster: snapshot.LocalApp},
	}
}
