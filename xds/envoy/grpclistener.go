package envoy

import (
	"fmt"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"

	"github.com/catenary-mesh/catenary/snapshot"
)

// grpcMessage translates a product that is for gRPC clients alone.
func grpcMessage(ref snapshot.Ref, product any) (msg proto.Message, refs []string, err error) {
	switch p := product.(type) {
	case snapshot.GRPCListener:
		return grpcServer(p), nil, nil
	case snapshot.APIListenerKey:
		return apiListener(p), nil, nil
	case snapshot.GRPCClusterKey:
		msg, err := grpcCluster(p)
		return msg, []string{p.Name}, err
	case snapshot.GRPCAggregateKey:
		return grpcAggregate(p), p.Children(), nil
	case snapshot.Routes:
		if key, ok := p.Key.(snapshot.GRPCRoutesKey); ok {
			msg, refs := grpcRoutes(key, p)
			return msg, refs, nil
		}
	}
	return nil, nil, fmt.Errorf("translate %s %s: no translation of a %T", ref.Key.Product(), ref.Name, product)
}

// apiListener is what a gRPC client asks for by the name that it dials. It has only what all libraries take:
// they refuse a listener for a filter that they do not know.
func apiListener(k snapshot.APIListenerKey) *listenerv3.Listener {
	hcm := &hcmv3.HttpConnectionManager{
		StatPrefix: "grpc",
		HttpFilters: []*hcmv3.HttpFilter{{
			Name:       "envoy.filters.http.router",
			ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: pack(&routerv3.Router{})},
		}},
	}
	if k.Routes == "" {
		hcm.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: grpcVirtualHost(k.Name, nil, k.Unhosted)}
	} else {
		hcm.RouteSpecifier = &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{
			ConfigSource: fromADS(), RouteConfigName: k.Routes,
		}}
	}
	return &listenerv3.Listener{Name: k.Name, ApiListener: &listenerv3.ApiListener{ApiListener: pack(hcm)}}
}

// grpcVirtualHost is routes for whatever name a client dials. A call that no route takes fails as UNAVAILABLE.
func grpcVirtualHost(name string, routes []*routev3.Route, form snapshot.Unhosted) *routev3.RouteConfiguration {
	if len(routes) == 0 && form == snapshot.Hostless {
		return &routev3.RouteConfiguration{Name: name}
	}
	return &routev3.RouteConfiguration{
		Name:         name,
		VirtualHosts: []*routev3.VirtualHost{{Name: name, Domains: []string{"*"}, Routes: routes}},
	}
}
