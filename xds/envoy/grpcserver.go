package envoy

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/snapshot"
)

// grpcServer translates the listener of a gRPC server. Only the fields are set that all libraries take.
func grpcServer(l snapshot.GRPCListener) *listenerv3.Listener {
	hcm := &hcmv3.HttpConnectionManager{
		StatPrefix: "grpc",
		RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: grpcVirtualHost(l.Key.Name, []*routev3.Route{{
			Match:  &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
			Action: &routev3.Route_NonForwardingAction{NonForwardingAction: &routev3.NonForwardingAction{}},
		}}, snapshot.Hosted)},
	}
	in := &listenerv3.FilterChain{Name: "grpc"}
	if l.Key.Mesh() {
		in.TransportSocket = grpcAcceptor()
		hcm.HttpFilters = append(hcm.HttpFilters, &hcmv3.HttpFilter{
			Name:       snapshot.IntentionsConfig,
			ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: pack(&httprbacv3.RBAC{Rules: grpcRules(l.Intentions)})},
		})
	}
	hcm.HttpFilters = append(hcm.HttpFilters, &hcmv3.HttpFilter{
		Name:       "envoy.filters.http.router",
		ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: pack(&routerv3.Router{})},
	})
	in.Filters = []*listenerv3.Filter{{
		Name:       "envoy.filters.network.http_connection_manager",
		ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: pack(hcm)},
	}}
	return &listenerv3.Listener{
		Name: l.Key.Name, FilterChains: []*listenerv3.FilterChain{in},
		Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
			Address: l.Key.Address, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(l.Key.Port)},
		}}},
	}
}

// grpcAcceptor is how a gRPC server of the mesh takes connections: by certificates of the mesh on both sides. Its
// own comes from where its bootstrap says.
func grpcAcceptor() *corev3.TransportSocket {
	provider := &tlsv3.CertificateProviderPluginInstance{InstanceName: certificateProvider}
	return &corev3.TransportSocket{
		Name: "envoy.transport_sockets.tls",
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: pack(&tlsv3.DownstreamTlsContext{
			RequireClientCertificate: wrapperspb.Bool(true),
			CommonTlsContext: &tlsv3.CommonTlsContext{
				TlsCertificateProviderInstance: provider,
				ValidationContextType: &tlsv3.CommonTlsContext_ValidationContext{
					ValidationContext: &tlsv3.CertificateValidationContext{CaCertificateProviderInstance: provider},
				},
			},
		})},
	}
}

// strangerRules is the name of the policy about who is no service of the mesh.
const strangerRules = "catenary-strangers"

// grpcRules are the rules for a gRPC server. One that was not made with xDS credentials listens in plaintext
// whatever its listener says: where all may call that are not denied, it must not be those without a certificate.
func grpcRules(i snapshot.Intentions) *rbacv3.RBAC {
	out := rules(i)
	if out.GetAction() == rbacv3.RBAC_DENY {
		if out.Policies == nil {
			out.Policies = map[string]*rbacv3.Policy{}
		}
		out.Policies[strangerRules] = &rbacv3.Policy{
			Permissions: []*rbacv3.Permission{anything()},
			Principals: []*rbacv3.Principal{{Identifier: &rbacv3.Principal_NotId{
				NotId: service(i.Key.TrustDomain, chain.WildcardName),
			}}},
		}
	}
	groupRegexes(out.ProtoReflect())
	for _, p := range out.Policies {
		wantPresent(p.Permissions)
	}
	return out
}

// wantPresent has rules that exclude a value of a header ask that there is one.
func wantPresent(list []*rbacv3.Permission) {
	for _, p := range list {
		switch rule := p.Rule.(type) {
		case *rbacv3.Permission_AndRules:
			wantPresent(rule.AndRules.Rules)
		case *rbacv3.Permission_OrRules:
			wantPresent(rule.OrRules.Rules)
		case *rbacv3.Permission_NotRule:
			wantPresent([]*rbacv3.Permission{rule.NotRule})
		case *rbacv3.Permission_Header:
			if excludes(rule.Header) {
				p.Rule = allOf([]*rbacv3.Permission{headerRule(present(rule.Header)), headerRule(rule.Header)}).Rule
			}
		}
	}
}

// excludes reports whether a matcher excludes a value. To Envoy a header that is missing has none, so that it does
// not match; to @grpc/grpc-js-xds it matches.
func excludes(m *routev3.HeaderMatcher) bool { return m.InvertMatch && !m.GetPresentMatch() }

// present matches where the header of a matcher is there.
func present(m *routev3.HeaderMatcher) *routev3.HeaderMatcher {
	return &routev3.HeaderMatcher{Name: m.Name, HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}}
}

// groupRegexes puts each regular expression of a message in a group: @grpc/grpc-js-xds puts anchors around it, which
// hold the first and last alternative only.
func groupRegexes(m protoreflect.Message) {
	if regex, ok := m.Interface().(*matcherv3.RegexMatcher); ok {
		regex.Regex = group(regex.GetRegex())
		return
	}
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.Message() == nil:
		case field.IsList():
			for i := range value.List().Len() {
				groupRegexes(value.List().Get(i).Message())
			}
		case field.IsMap() && field.MapValue().Message() != nil:
			value.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				groupRegexes(v.Message())
				return true
			})
		case !field.IsMap():
			groupRegexes(value.Message())
		}
		return true
	})
}
