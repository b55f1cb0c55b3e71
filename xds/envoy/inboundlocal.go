package envoy

import (
	"fmt"
	"net/netip"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/catenary-mesh/catenary/snapshot"
)

// localCluster translates a cluster of the service that a sidecar stands before.
func localCluster(k snapshot.LocalClusterKey) *clusterv3.Cluster {
	c := &clusterv3.Cluster{
		Name:                 k.Name,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		ConnectTimeout:       durationpb.New(k.ConnectTimeout),
		LoadAssignment: &endpointv3.ClusterLoadAssignment{
			ClusterName: k.Name,
			Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
				HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: localAddress(k.At)}},
			}}}},
		},
	}
	if k.MaxConnections > 0 {
		c.CircuitBreakers = &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
			MaxConnections: wrapperspb.UInt32(k.MaxConnections),
		}}}
	}
	if k.Protocol == "http2" || k.Protocol == "grpc" {
		options := asDownstream()
		if k.Explicit {
			options = http2()
		}
		c.TypedExtensionProtocolOptions = map[string]*anypb.Any{httpOptionsKey: pack(options)}
	}
	return c
}

func localAddress(at snapshot.LocalService) *corev3.Address {
	if at.SocketPath != "" {
		return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: at.SocketPath}}}
	}
	return address(at.Address, uint32(at.Port))
}

// asDownstream has a service spoken to as its caller speaks: it offers HTTP/1.1 too.
func asDownstream() *httpv3.HttpProtocolOptions {
	return &httpv3.HttpProtocolOptions{
		UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_UseDownstreamProtocolConfig{
			UseDownstreamProtocolConfig: &httpv3.HttpProtocolOptions_UseDownstreamHttpConfig{
				HttpProtocolOptions:  &corev3.Http1ProtocolOptions{},
				Http2ProtocolOptions: &corev3.Http2ProtocolOptions{},
			},
		},
	}
}

// exposedListener translates the listener of a path that is reached without the mesh. Nothing else is.
func exposedListener(k snapshot.ExposedListenerKey) *listenerv3.Listener {
	name := fmt.Sprintf("exposed_path_filter_%s_%d", k.Name, k.Port)
	hcm := localRequests(name, k.Protocol, k.MaxRequestHeadersKB, &routev3.Route{
		Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Path{Path: k.Path}},
		Action: &routev3.Route_Route{Route: &routev3.RouteAction{
			ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: k.Cluster},
		}},
	})
	hcm.HttpFilters = []*hcmv3.HttpFilter{{
		Name:       "envoy.filters.http.router",
		ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: pack(&routerv3.Router{})},
	}}
	filters := &listenerv3.FilterChain{Filters: []*listenerv3.Filter{{
		Name:       "envoy.filters.network.http_connection_manager",
		ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: pack(hcm)},
	}}}
	if k.LocalOnly {
		filters.FilterChainMatch = &listenerv3.FilterChainMatch{SourcePrefixRanges: localSources(k.Source)}
	}
	return inboundListener("exposed_path_"+k.Name, k.Address, k.Port, filters)
}

// localSources are this machine's own addresses, and one more.
func localSources(source string) []*corev3.CidrRange {
	ranges := []*corev3.CidrRange{cidr("127.0.0.1", 8)}
	if ip, err := netip.ParseAddr(source); err == nil {
		ranges = append(ranges, cidr(source, uint32(ip.BitLen())))
	}
	return append(ranges, cidr("::1", 128))
}

func cidr(prefix string, bits uint32) *corev3.CidrRange {
	return &corev3.CidrRange{AddressPrefix: prefix, PrefixLen: wrapperspb.UInt32(bits)}
}
