package wire_test

import (
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	managerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/google/go-cmp/cmp"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/catenary-mesh/catenary/test/load/wire"
)

func encoded(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func packed(t *testing.T, m proto.Message) *anypb.Any {
	t.Helper()
	a, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestARequestIsWhatEnvoysTypesRead(t *testing.T) {
	metadata, err := structpb.NewStruct(map[string]any{"node_name": "n-1"})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		request wire.Request
		want    *discoveryv3.DeltaDiscoveryRequest
	}{
		"first": {
			wire.Request{Node: &wire.Node{ID: "a-1", Cluster: "a", Name: "n-1"}, Type: wire.ClusterType},
			&discoveryv3.DeltaDiscoveryRequest{TypeUrl: wire.ClusterType, Node: &corev3.Node{
				Id: "a-1", Cluster: "a", Metadata: metadata, UserAgentName: "envoy",
				UserAgentVersionType: &corev3.Node_UserAgentBuildVersion{UserAgentBuildVersion: &corev3.BuildVersion{
					Version: &typev3.SemanticVersion{MajorNumber: 1, MinorNumber: 35},
				}},
			}},
		},
		"names": {
			wire.Request{
				Type: wire.EndpointType, Subscribe: []string{"x", "y"}, Unsubscribe: []string{"z"},
				Initial: map[string]string{"x": "1", "y": "2"},
			},
			&discoveryv3.DeltaDiscoveryRequest{
				TypeUrl: wire.EndpointType, ResourceNamesSubscribe: []string{"x", "y"}, ResourceNamesUnsubscribe: []string{"z"},
				InitialResourceVersions: map[string]string{"x": "1", "y": "2"},
			},
		},
		"NACK": {
			wire.Request{Type: wire.ListenerType, Nonce: []byte("7"), Refusal: "no"},
			&discoveryv3.DeltaDiscoveryRequest{
				TypeUrl: wire.ListenerType, ResponseNonce: "7", ErrorDetail: &statuspb.Status{Code: 3, Message: "no"},
			},
		},
	} {
		var got discoveryv3.DeltaDiscoveryRequest
		if err := proto.Unmarshal(c.request.Append(nil), &got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff(c.want, &got, protocmp.Transform()); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestAResponseIsWhatEnvoysTypesWrite(t *testing.T) {
	cluster := &clusterv3.Cluster{Name: "c"}
	message := encoded(t, &discoveryv3.DeltaDiscoveryResponse{
		SystemVersionInfo: "ignored", TypeUrl: wire.ClusterType, Nonce: "9", RemovedResources: []string{"gone"},
		Resources: []*discoveryv3.Resource{
			{Name: "c", Version: "v", Resource: packed(t, cluster), Aliases: []string{"also"}},
			{Name: "empty"},
		},
		ControlPlane: &corev3.ControlPlane{Identifier: "me"},
	})
	r := wire.Response{Removed: [][]byte{[]byte("of before")}}
	if err := r.Parse(message); err != nil {
		t.Fatal(err)
	}
	want := wire.Response{
		Type: []byte(wire.ClusterType), Nonce: []byte("9"), Removed: [][]byte{[]byte("gone")},
		Resources: []wire.Resource{
			{Name: []byte("c"), Version: []byte("v"), Body: encoded(t, cluster)}, {Name: []byte("empty")},
		},
	}
	if d := cmp.Diff(want, r); d != "" {
		t.Error(d)
	}
}

func TestEndpointsAreAskedForByTheNameOfTheService(t *testing.T) {
	eds := &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS}
	for want, c := range map[string]*clusterv3.Cluster{
		"":     {Name: "c"},
		"c":    {Name: "c", ClusterDiscoveryType: eds},
		"else": {Name: "c", ClusterDiscoveryType: eds, EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{ServiceName: "else"}},
	} {
		if got, err := wire.EndpointsOf(encoded(t, c)); got != want || err != nil {
			t.Errorf("%q %v, want %q", got, err, want)
		}
	}
}

func lbEndpoint(host string, port uint32, h corev3.HealthStatus) *endpointv3.LbEndpoint {
	return &endpointv3.LbEndpoint{
		HealthStatus: h,
		HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
			Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
				Address: host, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
			}}},
		}},
	}
}

func TestEveryEndpointOfEveryLocality(t *testing.T) {
	message := encoded(t, &endpointv3.ClusterLoadAssignment{ClusterName: "c", Endpoints: []*endpointv3.LocalityLbEndpoints{
		{Locality: &corev3.Locality{Zone: "a"}, LbEndpoints: []*endpointv3.LbEndpoint{
			lbEndpoint("10.0.0.1", 80, corev3.HealthStatus_UNKNOWN), lbEndpoint("10.0.0.2", 81, corev3.HealthStatus_HEALTHY),
		}},
		{LbEndpoints: []*endpointv3.LbEndpoint{lbEndpoint("::1", 65535, corev3.HealthStatus_UNHEALTHY)}},
	}})
	var got []wire.Endpoint
	if err := wire.EachEndpoint(message, func(e wire.Endpoint) { got = append(got, e) }); err != nil {
		t.Fatal(err)
	}
	want := []wire.Endpoint{
		{Address: []byte("10.0.0.1"), Port: 80},
		{Address: []byte("10.0.0.2"), Port: 81, Health: 1},
		{Address: []byte("::1"), Port: 65535, Health: 2},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if !got[0].Health.Healthy() || !got[1].Health.Healthy() || got[2].Health.Healthy() {
		t.Errorf("healthy: %v", got)
	}
}

func TestSecretsOfACluster(t *testing.T) {
	named := func(name string) *tlsv3.SdsSecretConfig { return &tlsv3.SdsSecretConfig{Name: name} }
	message := encoded(t, &clusterv3.Cluster{Name: "c", TransportSocket: &corev3.TransportSocket{
		Name: "tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: packed(t, &tlsv3.UpstreamTlsContext{
			CommonTlsContext: &tlsv3.CommonTlsContext{
				TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{named("leaf")},
				ValidationContextType: &tlsv3.CommonTlsContext_CombinedValidationContext{
					CombinedValidationContext: &tlsv3.CommonTlsContext_CombinedCertificateValidationContext{
						DefaultValidationContext: &tlsv3.CertificateValidationContext{}, ValidationContextSdsSecretConfig: named("roots"),
					},
				},
			},
		})},
	}})
	if got, err := wire.SecretsOf(message); err != nil || !slices.Equal(got, []string{"leaf", "roots"}) {
		t.Errorf("%q %v", got, err)
	}
	if got, err := wire.SecretsOf(encoded(t, &clusterv3.Cluster{Name: "plain"})); err != nil || len(got) != 0 {
		t.Errorf("of plaintext: %q %v", got, err)
	}
}

func TestRoutesOfEveryFilterChain(t *testing.T) {
	chain := func(name string) *listenerv3.FilterChain {
		manager := &managerv3.HttpConnectionManager{StatPrefix: "x", RouteSpecifier: &managerv3.HttpConnectionManager_Rds{
			Rds: &managerv3.Rds{RouteConfigName: name},
		}}
		return &listenerv3.FilterChain{Filters: []*listenerv3.Filter{
			{Name: "other"},
			{Name: "hcm", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: packed(t, manager)}},
		}}
	}
	message := encoded(t, &listenerv3.Listener{
		Name: "l", FilterChains: []*listenerv3.FilterChain{chain("a"), chain("b"), {}}, DefaultFilterChain: chain("c"),
	})
	got, err := wire.RoutesOf(message)
	slices.Sort(got)
	if err != nil || !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("%q %v", got, err)
	}
}

func TestWhatIsCutOffIsAnError(t *testing.T) {
	message := encoded(t, &endpointv3.ClusterLoadAssignment{Endpoints: []*endpointv3.LocalityLbEndpoints{
		{LbEndpoints: []*endpointv3.LbEndpoint{lbEndpoint("10.0.0.1", 80, corev3.HealthStatus_HEALTHY)}},
	}})
	err := wire.EachEndpoint(message[:len(message)-1], func(wire.Endpoint) {})
	if err == nil || !strings.Contains(err.Error(), "not a protocol buffer") {
		t.Errorf("the error is %v", err)
	}
	var r wire.Response
	if r.Parse([]byte{0x12, 0xff}) == nil {
		t.Error("a length beyond the end is read")
	}
}

func TestReadingAFlipAllocatesNothing(t *testing.T) {
	assignment := &endpointv3.ClusterLoadAssignment{ClusterName: "c", Endpoints: []*endpointv3.LocalityLbEndpoints{
		{LbEndpoints: []*endpointv3.LbEndpoint{lbEndpoint("10.0.0.1", 80, corev3.HealthStatus_HEALTHY)}},
	}}
	message := encoded(t, &discoveryv3.DeltaDiscoveryResponse{
		TypeUrl: wire.EndpointType, Nonce: "9", Resources: []*discoveryv3.Resource{{Name: "c", Resource: packed(t, assignment)}},
	})
	r, n := wire.Response{Resources: make([]wire.Resource, 0, 4)}, 0
	allocated := testing.AllocsPerRun(100, func() {
		if err := r.Parse(message); err != nil {
			t.Fatal(err)
		}
		if err := wire.EachEndpoint(r.Resources[0].Body, func(wire.Endpoint) { n++ }); err != nil {
			t.Fatal(err)
		}
	})
	if allocated > 0 {
		t.Errorf("%v allocations", allocated)
	}
}
