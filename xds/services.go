package xds

import (
	"context"
	"strings"

	clusterservice "github.com/envoyproxy/go-control-plane/envoy/service/cluster/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	endpointservice "github.com/envoyproxy/go-control-plane/envoy/service/endpoint/v3"
	extensionservice "github.com/envoyproxy/go-control-plane/envoy/service/extension/v3"
	listenerservice "github.com/envoyproxy/go-control-plane/envoy/service/listener/v3"
	routeservice "github.com/envoyproxy/go-control-plane/envoy/service/route/v3"
	secretservice "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc"

	"github.com/catenary-mesh/catenary/xds/session"
)

// service is a discovery service: its description, and the one type it serves; the aggregated one
// serves all.
type service struct {
	desc *grpc.ServiceDesc
	url  string
}

func services() []service {
	return []service{
		{&discoveryv3.AggregatedDiscoveryService_ServiceDesc, ""},
		{&clusterservice.ClusterDiscoveryService_ServiceDesc, session.ClusterURL},
		{&endpointservice.EndpointDiscoveryService_ServiceDesc, session.EndpointURL},
		{&listenerservice.ListenerDiscoveryService_ServiceDesc, session.ListenerURL},
		{&routeservice.RouteDiscoveryService_ServiceDesc, session.RouteURL},
		{&routeservice.VirtualHostDiscoveryService_ServiceDesc, session.VirtualHostURL},
		{&secretservice.SecretDiscoveryService_ServiceDesc, session.SecretURL},
		{&extensionservice.ExtensionConfigDiscoveryService_ServiceDesc, session.ExtensionURL},
	}
}

// Register adds the discovery services, and what tells of clients, to a gRPC server that was made with
// [ServerOptions].
func (s *Server) Register(g grpc.ServiceRegistrar) {
	for _, svc := range services() {
		g.RegisterService(s.describe(svc), s)
	}
	statusv3.RegisterClientStatusDiscoveryServiceServer(g, &questions{Server: s})
	g.RegisterService(s.loadService(), s)
}

// describe returns the description of a service with all its methods served by s. They are told apart
// by how Envoy names them: Delta and Stream for the two forms, Fetch for a single answer.
func (s *Server) describe(svc service) *grpc.ServiceDesc {
	only, _ := session.TypeByURL(svc.url)
	desc := &grpc.ServiceDesc{
		ServiceName: svc.desc.ServiceName, HandlerType: (*any)(nil), Metadata: svc.desc.Metadata,
	}
	for _, m := range svc.desc.Streams {
		form := session.SotW
		if strings.HasPrefix(m.StreamName, "Delta") {
			form = session.Delta
		}
		m.Handler = func(_ any, st grpc.ServerStream) error {
			return s.serve(transport{call{st.Context(), form, only}, st})
		}
		desc.Streams = append(desc.Streams, m)
	}
	for _, m := range svc.desc.Methods {
		m.Handler = s.fetchMethod(only, "/"+desc.ServiceName+"/"+m.MethodName)
		desc.Methods = append(desc.Methods, m)
	}
	return desc
}

// fetchMethod serves a Fetch method of one type.
func (s *Server) fetchMethod(only *session.Type, name string) grpc.MethodHandler {
	return func(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
		m := &discoveryv3.DiscoveryRequest{}
		if err := decode(m); err != nil {
			return nil, err
		}
		fetch := func(ctx context.Context, _ any) (any, error) { return s.fetch(ctx, only, session.FromSotW(m)) }
		if intercept == nil {
			return fetch(ctx, m)
		}
		return intercept(ctx, m, &grpc.UnaryServerInfo{Server: s, FullMethod: name}, fetch)
	}
}
