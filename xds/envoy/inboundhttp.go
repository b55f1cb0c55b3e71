package envoy

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	bridgev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/grpc_http1_bridge/v3"
	grpcstatsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/grpc_stats/v3"
	metadatav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_to_metadata/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/catenary-mesh/catenary/snapshot"
)

// inboundHTTPFilters is the order of the HTTP filters of a listener for the mesh, with the reason why each is
// where it is.
var inboundHTTPFilters = []struct {
	name   string
	config func() proto.Message
	when   func(snapshot.PublicListenerKey) bool
}{
	// counts gRPC calls before anything can answer them
	{"envoy.filters.http.grpc_stats", grpcStats, speaksGRPC},
	// lets HTTP/1.1 clients call gRPC services: what decides about calls must see them as gRPC
	{"envoy.filters.http.grpc_http1_bridge", func() proto.Message { return &bridgev3.Config{} }, speaksGRPC},
	// before anything that answers or forwards
	{snapshot.IntentionsName(true), func() proto.Message { return discovered(httpRBAC) }, func(snapshot.PublicListenerKey) bool { return true }},
	// knows the requests that are let in, to end those that may be in no longer
	{tracker, trackRequests, func(k snapshot.PublicListenerKey) bool { return k.Evicts }},
	// only of requests that may pass
	{"envoy.filters.http.header_to_metadata", callerMetadata, tellsCaller},
	// ends the chain: Envoy refuses anything behind it
	{"envoy.filters.http.router", func() proto.Message { return &routerv3.Router{} }, func(snapshot.PublicListenerKey) bool { return true }},
}

func speaksGRPC(k snapshot.PublicListenerKey) bool { return k.Protocol == "grpc" }

// tellsCaller reports whether the service is told who calls. gRPC services are not, as by Consul.
func tellsCaller(k snapshot.PublicListenerKey) bool {
	return !speaksGRPC(k) && !k.HTTP.SanitizeClientCert
}

func grpcStats() proto.Message {
	return &grpcstatsv3.FilterConfig{
		PerMethodStatSpecifier: &grpcstatsv3.FilterConfig_StatsForAllMethods{StatsForAllMethods: wrapperspb.Bool(true)},
	}
}

// inboundRequests forwards requests to the service.
func inboundRequests(k snapshot.PublicListenerKey) proto.Message {
	hcm := localRequests(snapshot.PublicListener, k.Protocol, k.HTTP.MaxRequestHeadersKB, &routev3.Route{
		Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
		Action: &routev3.Route_Route{Route: &routev3.RouteAction{
			ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: snapshot.LocalApp},
			Timeout:          setTimeout(k.HTTP.RequestTimeout), IdleTimeout: setTimeout(k.HTTP.IdleTimeout),
		}},
	})
	normalize(hcm, k.HTTP)
	if tellsCaller(k) {
		hcm.ForwardClientCertDetails = hcmv3.HttpConnectionManager_APPEND_FORWARD
		hcm.SetCurrentClientCertDetails = &hcmv3.HttpConnectionManager_SetCurrentClientCertDetails{
			Subject: wrapperspb.Bool(true), Cert: true, Chain: true, Dns: true, Uri: true,
		}
	}
	for _, f := range inboundHTTPFilters {
		if !f.when(k) {
			continue
		}
		filter := &hcmv3.HttpFilter{Name: f.name}
		switch c := f.config().(type) {
		case *corev3.ExtensionConfigSource:
			filter.ConfigType = &hcmv3.HttpFilter_ConfigDiscovery{ConfigDiscovery: c}
		default:
			filter.ConfigType = &hcmv3.HttpFilter_TypedConfig{TypedConfig: pack(c)}
		}
		hcm.HttpFilters = append(hcm.HttpFilters, filter)
	}
	return hcm
}

// localRequests sends what a route matches to the service. It has no filters yet.
func localRequests(name, protocol string, headersKB uint32, route *routev3.Route) *hcmv3.HttpConnectionManager {
	hcm := &hcmv3.HttpConnectionManager{
		StatPrefix: name,
		RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{
			Name: name,
			VirtualHosts: []*routev3.VirtualHost{{
				Name: name, Domains: []string{"*"}, Routes: []*routev3.Route{route},
			}},
		}},
		UpgradeConfigs: []*hcmv3.HttpConnectionManager_UpgradeConfig{{UpgradeType: "websocket"}},
		Tracing:        &hcmv3.HttpConnectionManager_Tracing{RandomSampling: &typev3.Percent{}},
	}
	if protocol == "http2" || protocol == "grpc" {
		hcm.Http2ProtocolOptions = &corev3.Http2ProtocolOptions{}
	}
	if headersKB > 0 {
		hcm.MaxRequestHeadersKb = wrapperspb.UInt32(headersKB)
	}
	return hcm
}

func setTimeout(t snapshot.Timeout) *durationpb.Duration {
	if !t.Set {
		return nil
	}
	return durationpb.New(t.Value)
}

// normalize sets what is done to a request before anything looks at it: rules about its path must not be got
// round by another spelling.
func normalize(hcm *hcmv3.HttpConnectionManager, k snapshot.InboundHTTP) {
	n := k.Normalization
	if !n.InsecureDisablePathNormalization {
		hcm.NormalizePath = wrapperspb.Bool(true)
	}
	hcm.MergeSlashes = n.MergeSlashes
	hcm.PathWithEscapedSlashesAction = hcmv3.HttpConnectionManager_PathWithEscapedSlashesAction(
		hcmv3.HttpConnectionManager_PathWithEscapedSlashesAction_value[n.PathWithEscapedSlashesAction])
	action := corev3.HttpProtocolOptions_HeadersWithUnderscoresAction(
		corev3.HttpProtocolOptions_HeadersWithUnderscoresAction_value[n.HeadersWithUnderscoresAction])
	if action != corev3.HttpProtocolOptions_ALLOW {
		hcm.CommonHttpProtocolOptions = &corev3.HttpProtocolOptions{HeadersWithUnderscoresAction: action}
	}
}

// callerParts are the parts of who calls, each with what finds it in the SPIFFE ID of the last certificate in
// the header, which is the one that was shown here: those before it are what others said. They are short, for
// an Envoy whose bootstrap does not allow more refuses a regular expression of more than 100 instructions.
var callerParts = []struct{ name, pattern string }{
	{"trust-domain", `.*URI=spiffe://([^/;,]+)/.*`},
	{"partition", `.*URI=spiffe://[^/;,]+(?:/ap/([^/;,]+))?/ns/.*`},
	{"namespace", `.*URI=spiffe://[^;,]+/ns/([^/;,]+)/dc/.*`},
	{"datacenter", `.*URI=spiffe://[^;,]+/dc/([^/;,]+)/svc/.*`},
	{"service", `.*URI=spiffe://[^;,]+/svc/([^/;,]+).*`},
}

// callerMetadata puts who calls into the metadata of a request, where filters and access logs find it.
func callerMetadata() proto.Message {
	out := &metadatav3.Config{}
	for _, part := range callerParts {
		out.RequestRules = append(out.RequestRules, &metadatav3.Config_Rule{
			Header: "x-forwarded-client-cert",
			OnHeaderPresent: &metadatav3.Config_KeyValuePair{
				MetadataNamespace: "consul", Key: part.name,
				RegexValueRewrite: &matcherv3.RegexMatchAndSubstitute{
					Pattern: &matcherv3.RegexMatcher{Regex: part.pattern}, Substitution: `\1`,
				},
			},
		})
	}
	return out
}
