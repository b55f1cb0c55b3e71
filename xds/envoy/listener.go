package envoy

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	bridgev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/grpc_http1_bridge/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/snapshot"
)

// noChain is the cluster of a tcp upstream whose chain never compiled. It does not exist, and so
// Envoy closes the connections.
const noChain = "catenary_no_chain"

// httpFilters is the order of HTTP filters, with the reason why each is where it is.
var httpFilters = []struct {
	name   string
	config func() proto.Message
	when   func(snapshot.ListenerKey) bool
}{
	// counts gRPC calls before anything can answer them
	{"envoy.filters.http.grpc_stats", grpcStats, isGRPC},
	// lets HTTP/1.1 clients call gRPC services; must see the request before it is routed
	{"envoy.filters.http.grpc_http1_bridge", func() proto.Message { return &bridgev3.Config{} }, isGRPC},
	// ends the chain: Envoy refuses anything behind it
	{"envoy.filters.http.router", func() proto.Message { return &routerv3.Router{} }, always},
}

func isGRPC(k snapshot.ListenerKey) bool { return k.Protocol == "grpc" }
func always(snapshot.ListenerKey) bool   { return true }

// httpListener routes requests by the route configuration of the upstream's name.
func httpListener(k snapshot.ListenerKey) *listenerv3.Listener {
	hcm := &hcmv3.HttpConnectionManager{
		StatPrefix: k.StatPrefix,
		RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{
			ConfigSource: fromADSWithin(k.Settings.FetchTimeout), RouteConfigName: k.EnvoyID,
		}},
		UpgradeConfigs: []*hcmv3.HttpConnectionManager_UpgradeConfig{{UpgradeType: "websocket"}},
		Tracing:        &hcmv3.HttpConnectionManager_Tracing{RandomSampling: &typev3.Percent{}},
	}
	if k.Protocol == "http2" || k.Protocol == "grpc" {
		hcm.Http2ProtocolOptions = &corev3.Http2ProtocolOptions{}
	}
	if kb := k.Settings.MaxRequestHeadersKB; kb > 0 {
		hcm.MaxRequestHeadersKb = wrapperspb.UInt32(kb)
	}
	for _, f := range httpFilters {
		if f.when(k) {
			hcm.HttpFilters = append(hcm.HttpFilters, &hcmv3.HttpFilter{
				Name:       f.name,
				ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: pack(f.config())},
			})
		}
	}
	return listener(k, "envoy.filters.network.http_connection_manager", hcm)
}

// tcpListener forwards connections to the chain's only target.
func tcpListener(k snapshot.ListenerKey, p snapshot.Routes) (*listenerv3.Listener, []string) {
	proxy := &tcpv3.TcpProxy{
		StatPrefix:       k.StatPrefix,
		ClusterSpecifier: &tcpv3.TcpProxy_Cluster{Cluster: noChain},
	}
	var refs []string
	if p.Chain != nil {
		if name, ok := clusterOf(p.Chain, p.Chain.Nodes[p.Chain.StartNode]); ok {
			proxy.ClusterSpecifier = &tcpv3.TcpProxy_Cluster{Cluster: name}
			refs = []string{name}
		}
	}
	return listener(k, "envoy.filters.network.tcp_proxy", proxy), refs
}

// clusterOf is the cluster that a resolver node sends to.
func clusterOf(c *chain.Chain, node *chain.Node) (string, bool) {
	if node == nil || node.Resolver == nil {
		return "", false
	}
	target := c.Targets[node.Resolver.Target]
	if target == nil {
		return "", false
	}
	return snapshot.ClusterName(c, target), true
}

func listener(k snapshot.ListenerKey, filter string, config proto.Message) *listenerv3.Listener {
	l := &listenerv3.Listener{
		Name:             snapshot.ListenerName(k.EnvoyID, k.Bind),
		Address:          door(k.Bind),
		TrafficDirection: corev3.TrafficDirection_OUTBOUND,
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name:       filter,
			ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: pack(config)},
		}}}},
	}
	if k.ExactBalance {
		l.ConnectionBalanceConfig = exactBalance()
	}
	return l
}

func door(b snapshot.Bind) *corev3.Address {
	if b.SocketPath == "" {
		return address(b.Address, uint32(b.Port))
	}
	return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: b.SocketPath, Mode: b.SocketMode}}}
}

func address(ip string, port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address:       ip,
		PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}
