package envoy

import (
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/snapshot"
)

// ads is a source over the same stream.
const ads = `{"ads": {}, "resourceApiVersion": "V3"}`

func publicKey(protocol string) snapshot.PublicListenerKey {
	return snapshot.PublicListenerKey{Address: "0.0.0.0", Port: 21000, Protocol: protocol}
}

// connectionManager takes the HTTP connection manager out of a listener.
func connectionManager(t *testing.T, l *listenerv3.Listener) *hcmv3.HttpConnectionManager {
	t.Helper()
	filters := l.GetFilterChains()[0].GetFilters()
	hcm := &hcmv3.HttpConnectionManager{}
	if err := filters[len(filters)-1].GetTypedConfig().UnmarshalTo(hcm); err != nil {
		t.Fatal(err)
	}
	return hcm
}

func TestConnectionsComeInPastIntentionsAndNoFurtherThanTheLimit(t *testing.T) {
	k := publicKey("tcp")
	k.Limits = snapshot.InboundLimits{MaxConnections: 77, ExactBalance: true}
	k.TLS = snapshot.TLSParameters{MinVersion: "TLSv1_2"}
	wants(t, publicListener(k), &listenerv3.Listener{}, `{
		"name": "public_listener:0.0.0.0:21000", "trafficDirection": "INBOUND",
		"address": {"socketAddress": {"address": "0.0.0.0", "portValue": 21000}},
		"connectionBalanceConfig": {"exactBalance": {}},
		"filterChains": [{
			"filters": [
				{"name": "intentions-connections", "configDiscovery": {"configSource": `+ads+`,
					"typeUrls": ["type.googleapis.com/envoy.extensions.filters.network.rbac.v3.RBAC"]}},
				{"name": "envoy.filters.network.connection_limit", "typedConfig": {
					"@type": "type.googleapis.com/envoy.extensions.filters.network.connection_limit.v3.ConnectionLimit",
					"statPrefix": "inbound_connection_limit", "maxConnections": "77"}},
				{"name": "envoy.filters.network.tcp_proxy", "typedConfig": {
					"@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
					"statPrefix": "public_listener", "cluster": "local_app"}}],
			"transportSocket": {"name": "tls", "typedConfig": {
				"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
				"requireClientCertificate": true,
				"commonTlsContext": {
					"tlsParams": {"tlsMinimumProtocolVersion": "TLSv1_2"},
					"tlsCertificateSdsSecretConfigs": [{"name": "leaf", "sdsConfig": `+ads+`}],
					"validationContextSdsSecretConfig": {"name": "roots", "sdsConfig": `+ads+`}}}}}]}`)
}

func TestRequestsComeInPastIntentions(t *testing.T) {
	k := publicKey("http")
	k.HTTP.MaxRequestHeadersKB = 96
	k.HTTP.RequestTimeout = snapshot.Timeout{Set: true}
	k.HTTP.IdleTimeout = snapshot.Timeout{Set: true, Value: 3456 * time.Millisecond}
	hcm := connectionManager(t, publicListener(k))
	filters := hcm.GetHttpFilters()
	hcm.HttpFilters = nil
	wants(t, hcm, &hcmv3.HttpConnectionManager{}, `{
		"statPrefix": "public_listener", "normalizePath": true, "maxRequestHeadersKb": 96,
		"forwardClientCertDetails": "APPEND_FORWARD",
		"setCurrentClientCertDetails": {"subject": true, "cert": true, "chain": true, "dns": true, "uri": true},
		"tracing": {"randomSampling": {}}, "upgradeConfigs": [{"upgradeType": "websocket"}],
		"routeConfig": {"name": "public_listener", "virtualHosts": [{"name": "public_listener", "domains": ["*"],
			"routes": [{"match": {"prefix": "/"}, "route": {"cluster": "local_app", "timeout": "0s", "idleTimeout": "3.456s"}}]}]}}`)
	wants(t, filters[0], &hcmv3.HttpFilter{}, `{"name": "intentions", "configDiscovery": {"configSource": `+ads+`,
		"typeUrls": ["type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC"]}}`)
}

func TestWhereItIsEndedTheTrackerIsBehindWhoDecidesAndTheRulesWhereNobodyPasses(t *testing.T) {
	for protocol, want := range map[string][]string{
		"tcp":  {"intentions-connections", tracker, "envoy.filters.network.tcp_proxy"},
		"http": {"envoy.filters.network.http_connection_manager"},
	} {
		k := publicKey(protocol)
		k.Evicts = true
		l := publicListener(k)
		var names []string
		for _, f := range l.GetFilterChains()[0].GetFilters() {
			names = append(names, f.GetName())
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s: network filters %q, want %q", protocol, names, want)
		}
		if last := l.GetFilterChains()[1]; last.GetFilterChainMatch().GetTransportProtocol() != "none" || last.GetFilters()[0].GetName() != snapshot.EvictionConfig {
			t.Errorf("%s: the second chain is %v", protocol, last)
		}
		if protocol == "http" {
			filters := connectionManager(t, l).GetHttpFilters()
			if filters[0].GetName() != snapshot.IntentionsName(true) || filters[1].GetName() != tracker {
				t.Errorf("HTTP filters begin with %s and %s", filters[0].GetName(), filters[1].GetName())
			}
		}
	}
}

func TestTheFiltersOfEachProtocolInTheirOrder(t *testing.T) {
	sanitized := publicKey("http")
	sanitized.HTTP.SanitizeClientCert = true
	limited := publicKey("http2")
	limited.Limits.MaxConnections = 1
	for name, c := range map[string]struct {
		key           snapshot.PublicListenerKey
		network, http []string
		alpn          []string
		http2, caller bool
	}{
		"tcp": {key: publicKey("tcp"), network: []string{"intentions-connections", "envoy.filters.network.tcp_proxy"}},
		"a protocol that is not known": {
			key: publicKey("redis"), network: []string{"intentions-connections", "envoy.filters.network.tcp_proxy"},
		},
		"http": {
			key: publicKey("http"), network: []string{"envoy.filters.network.http_connection_manager"},
			http: []string{"intentions", "envoy.filters.http.header_to_metadata", "envoy.filters.http.router"},
			alpn: []string{"http/1.1"}, caller: true,
		},
		"http that does not tell who calls": {
			key: sanitized, network: []string{"envoy.filters.network.http_connection_manager"},
			http: []string{"intentions", "envoy.filters.http.router"}, alpn: []string{"http/1.1"},
		},
		"http2 with a limit": {
			key: limited, network: []string{"envoy.filters.network.connection_limit", "envoy.filters.network.http_connection_manager"},
			http: []string{"intentions", "envoy.filters.http.header_to_metadata", "envoy.filters.http.router"},
			alpn: []string{"h2", "http/1.1"}, http2: true, caller: true,
		},
		"grpc": {
			key: publicKey("grpc"), network: []string{"envoy.filters.network.http_connection_manager"},
			http: []string{"envoy.filters.http.grpc_stats", "envoy.filters.http.grpc_http1_bridge", "intentions", "envoy.filters.http.router"},
			alpn: []string{"h2", "http/1.1"}, http2: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := publicListener(c.key)
			var network, http []string
			for _, f := range l.GetFilterChains()[0].GetFilters() {
				network = append(network, f.GetName())
			}
			if !slices.Equal(network, c.network) {
				t.Errorf("network filters %q, want %q", network, c.network)
			}
			if got := alpn(c.key.Protocol); !slices.Equal(got, c.alpn) {
				t.Errorf("offers %q, want %q", got, c.alpn)
			}
			if c.http == nil {
				return
			}
			hcm := connectionManager(t, l)
			for _, f := range hcm.GetHttpFilters() {
				http = append(http, f.GetName())
			}
			if !slices.Equal(http, c.http) {
				t.Errorf("HTTP filters %q, want %q", http, c.http)
			}
			if got := hcm.GetHttp2ProtocolOptions() != nil; got != c.http2 {
				t.Errorf("options of HTTP/2: %v, want %v", got, c.http2)
			}
			if got := hcm.GetForwardClientCertDetails() == hcmv3.HttpConnectionManager_APPEND_FORWARD; got != c.caller {
				t.Errorf("tells who calls: %v, want %v", got, c.caller)
			}
		})
	}
}

func TestRequestsAreNormalisedAsTheMeshEntrySays(t *testing.T) {
	for name, c := range map[string]struct {
		entry chain.RequestNormalization
		want  string
	}{
		"by default": {chain.RequestNormalization{}, `{"normalizePath": true}`},
		"not at all": {chain.RequestNormalization{InsecureDisablePathNormalization: true}, `{}`},
		"thoroughly": {
			chain.RequestNormalization{MergeSlashes: true, PathWithEscapedSlashesAction: "UNESCAPE_AND_FORWARD", HeadersWithUnderscoresAction: "REJECT_REQUEST"},
			`{"normalizePath": true, "mergeSlashes": true, "pathWithEscapedSlashesAction": "UNESCAPE_AND_FORWARD",
			  "commonHttpProtocolOptions": {"headersWithUnderscoresAction": "REJECT_REQUEST"}}`,
		},
		"as it is by default": {
			chain.RequestNormalization{PathWithEscapedSlashesAction: "IMPLEMENTATION_SPECIFIC_DEFAULT", HeadersWithUnderscoresAction: "ALLOW"},
			`{"normalizePath": true}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := &hcmv3.HttpConnectionManager{}
			normalize(got, snapshot.InboundHTTP{Normalization: c.entry})
			wants(t, got, &hcmv3.HttpConnectionManager{}, c.want)
		})
	}
}

// What another proxy said of who called it comes before what this one saw.
func TestWhoCallsIsWhoShowedTheCertificateHere(t *testing.T) {
	const here = `,By=spiffe://td.consul/ns/default/dc/dc1/svc/web;Hash=0a;Cert="x";Chain="y";Subject="";URI=spiffe://td.consul/ns/team/dc/dc2/svc/api;DNS=a,`
	for header, want := range map[string]map[string]string{
		`By=spiffe://td.consul/ns/default/dc/dc1/svc/web;Hash=0a;Subject="";URI=spiffe://td.consul/ns/default/dc/dc1/svc/api`: {
			"trust-domain": "td.consul", "partition": "", "namespace": "default", "datacenter": "dc1", "service": "api",
		},
		`Hash=0b;URI=spiffe://evil.consul/ns/n/dc/d/svc/s` + here[:len(here)-1]: {
			"trust-domain": "td.consul", "partition": "", "namespace": "team", "datacenter": "dc2", "service": "api",
		},
		`Hash=0c;URI=spiffe://td.consul/ap/part/ns/svc/dc/svc/svc/svc`: {
			"trust-domain": "td.consul", "partition": "part", "namespace": "svc", "datacenter": "svc", "service": "svc",
		},
	} {
		for _, part := range callerParts {
			got := regexp.MustCompile(part.pattern).ReplaceAllString(header, "${1}")
			if got != want[part.name] {
				t.Errorf("%s of %s is %q, want %q", part.name, header, got, want[part.name])
			}
		}
	}
}

func TestTheServiceBehindASidecar(t *testing.T) {
	at := snapshot.LocalService{Address: "127.0.0.1", Port: 8080}
	for name, c := range map[string]struct {
		key  snapshot.LocalClusterKey
		want string
	}{
		"http": {snapshot.LocalClusterKey{At: at, Protocol: "http"}, `{}`},
		"with a limit": {
			snapshot.LocalClusterKey{At: at, Protocol: "tcp", MaxConnections: 77},
			`{"circuitBreakers": {"thresholds": [{"maxConnections": 77}]}}`,
		},
		"spoken to as the client speaks": {snapshot.LocalClusterKey{At: at, Protocol: "grpc"}, `{
			"typedExtensionProtocolOptions": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
				"@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
				"useDownstreamProtocolConfig": {"httpProtocolOptions": {}, "http2ProtocolOptions": {}}}}}`},
		"spoken to in HTTP/2": {snapshot.LocalClusterKey{At: at, Protocol: "http2", Explicit: true}, `{
			"typedExtensionProtocolOptions": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
				"@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
				"explicitHttpConfig": {"http2ProtocolOptions": {}}}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			c.key.Name, c.key.ConnectTimeout = "local_app", 5*time.Second
			got := localCluster(c.key)
			wants(t, got.GetLoadAssignment().GetEndpoints()[0].GetLbEndpoints()[0].GetEndpoint().GetAddress(), &corev3.Address{},
				`{"socketAddress": {"address": "127.0.0.1", "portValue": 8080}}`)
			if got.GetType() != clusterv3.Cluster_STATIC || got.GetConnectTimeout().AsDuration() != 5*time.Second ||
				got.GetLoadAssignment().GetClusterName() != "local_app" {
				t.Errorf("%v", got)
			}
			got.Name, got.ConnectTimeout, got.LoadAssignment, got.ClusterDiscoveryType = "", nil, nil, nil
			wants(t, got, &clusterv3.Cluster{}, c.want)
		})
	}
	socket := localCluster(snapshot.LocalClusterKey{Name: "local_app", At: snapshot.LocalService{Address: "127.0.0.1", SocketPath: "/tmp/web.sock"}})
	wants(t, socket.GetLoadAssignment().GetEndpoints()[0].GetLbEndpoints()[0].GetEndpoint().GetAddress(), &corev3.Address{},
		`{"pipe": {"path": "/tmp/web.sock"}}`)
}

func TestAnExposedPathNeedsNoCertificate(t *testing.T) {
	k := snapshot.ExposedListenerKey{
		Name: "metricsall", Address: "10.0.0.9", Port: 21501, Path: "/metrics/all", Protocol: "http2",
		Cluster: "exposed_cluster_9090", MaxRequestHeadersKB: 96,
	}
	want := `{"name": "exposed_path_metricsall:10.0.0.9:21501", "trafficDirection": "INBOUND",
		"address": {"socketAddress": {"address": "10.0.0.9", "portValue": 21501}},
		"filterChains": [{%s "filters": [{"name": "envoy.filters.network.http_connection_manager", "typedConfig": {
			"@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
			"statPrefix": "exposed_path_filter_metricsall_21501", "http2ProtocolOptions": {}, "maxRequestHeadersKb": 96,
			"tracing": {"randomSampling": {}}, "upgradeConfigs": [{"upgradeType": "websocket"}],
			"routeConfig": {"name": "exposed_path_filter_metricsall_21501", "virtualHosts": [{
				"name": "exposed_path_filter_metricsall_21501", "domains": ["*"],
				"routes": [{"match": {"path": "/metrics/all"}, "route": {"cluster": "exposed_cluster_9090"}}]}]},
			"httpFilters": [{"name": "envoy.filters.http.router", "typedConfig": {
				"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}]}}]}]}`
	wants(t, exposedListener(k), &listenerv3.Listener{}, fmt.Sprintf(want, ""))
	k.LocalOnly, k.Source = true, "10.0.0.1"
	wants(t, exposedListener(k), &listenerv3.Listener{}, fmt.Sprintf(want, `"filterChainMatch": {"sourcePrefixRanges": [
		{"addressPrefix": "127.0.0.1", "prefixLen": 8}, {"addressPrefix": "10.0.0.1", "prefixLen": 32},
		{"addressPrefix": "::1", "prefixLen": 128}]},`))
}

func TestListenersForWhatComesInWaitForTheirClusters(t *testing.T) {
	for want, key := range map[string]snapshot.Key{
		"local_app":            publicKey("tcp"),
		"exposed_cluster_9090": snapshot.ExposedListenerKey{Name: "m", Address: "10.0.0.9", Port: 1, Path: "/m", Cluster: "exposed_cluster_9090"},
	} {
		r, err := Resource(snapshot.Ref{Name: "l", Key: key}, key)
		if err != nil || !slices.Equal(r.Refs, []string{want}) {
			t.Errorf("%T refers to %q (%v), want %s", key, r.Refs, err, want)
		}
	}
}

func listenerOf(t *testing.T, msg proto.Message) *listenerv3.Listener {
	t.Helper()
	l, ok := msg.(*listenerv3.Listener)
	if !ok {
		t.Fatalf("a %T is no listener", msg)
	}
	return l
}
