package envoy

import (
	"fmt"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	aggregatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/aggregate/v3"
	leastrequestv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/least_request/v3"
	roundrobinv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/round_robin/v3"
	wrrlocalityv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/wrr_locality/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/catenary-mesh/catenary/snapshot"
)

// grpcCluster translates a cluster for gRPC clients, whose endpoints come over the same stream, and which tell
// the same server of their load.
func grpcCluster(k snapshot.GRPCClusterKey) (*clusterv3.Cluster, error) {
	socket, err := grpcTransport(k.Transport)
	if err != nil {
		return nil, err
	}
	c := &clusterv3.Cluster{
		Name:                 k.Name,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig:     &clusterv3.Cluster_EdsClusterConfig{EdsConfig: fromADS()},
		TransportSocket:      socket,
		OutlierDetection:     grpcOutlier(k.Outlier),
		LrsServer: &corev3.ConfigSource{
			ResourceApiVersion:    corev3.ApiVersion_V3,
			ConfigSourceSpecifier: &corev3.ConfigSource_Self{Self: &corev3.SelfConfigSource{}},
		},
	}
	if k.MaxRequests.Set {
		c.CircuitBreakers = &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
			MaxRequests: wrap(k.MaxRequests),
		}}}
	}
	grpcBalance(c, k.LoadBalancer)
	return c, nil
}

// grpcAggregate translates a cluster that fails over along its children. It names no CLUSTER_PROVIDED policy,
// as Envoy demands: gRPC clients refuse that, and follow what stands here for the children too.
func grpcAggregate(k snapshot.GRPCAggregateKey) *clusterv3.Cluster {
	c := &clusterv3.Cluster{
		Name: k.Name,
		ClusterDiscoveryType: &clusterv3.Cluster_ClusterType{ClusterType: &clusterv3.Cluster_CustomClusterType{
			Name:        "envoy.clusters.aggregate",
			TypedConfig: pack(&aggregatev3.ClusterConfig{Clusters: k.Children()}),
		}},
	}
	grpcBalance(c, k.LoadBalancer)
	return c
}

// grpcBalance sets the load-balancing policy. Where not all libraries have it, it heads a list of which a
// client takes the first that it knows: one that it does not know would have it refuse the cluster.
func grpcBalance(c *clusterv3.Cluster, lb snapshot.LoadBalancer) {
	switch lb.Policy {
	case "ring_hash":
		balance(c, lb)
	case "least_request":
		least := &leastrequestv3.LeastRequest{}
		if lb.LeastRequestsChoices > 0 {
			least.ChoiceCount = wrapperspb.UInt32(lb.LeastRequestsChoices)
		}
		c.LoadBalancingPolicy = policies(
			named("envoy.load_balancing_policies.wrr_locality", &wrrlocalityv3.WrrLocality{EndpointPickingPolicy: policies(
				named("envoy.load_balancing_policies.least_request", least),
				named("envoy.load_balancing_policies.round_robin", &roundrobinv3.RoundRobin{}),
			)}))
	}
}

func policies(list ...*clusterv3.LoadBalancingPolicy_Policy) *clusterv3.LoadBalancingPolicy {
	return &clusterv3.LoadBalancingPolicy{Policies: list}
}

func named(name string, config proto.Message) *clusterv3.LoadBalancingPolicy_Policy {
	return &clusterv3.LoadBalancingPolicy_Policy{
		TypedExtensionConfig: &corev3.TypedExtensionConfig{Name: name, TypedConfig: pack(config)},
	}
}

// failureVolume is how many calls an endpoint must have had in an interval to be judged, where nobody says it:
// as many as Envoy sees fail in a row.
const failureVolume = 5

// grpcOutlier translates the ejection of failing endpoints; nil where none is asked for. gRPC counts no failures
// in a row: an endpoint goes by its share of failed calls, even if it is the only one, as in Envoy. That of
// endpoints which are merely worse than the others is off, because nobody asked for it.
func grpcOutlier(o snapshot.Outlier) *clusterv3.OutlierDetection {
	if o == (snapshot.Outlier{}) {
		return nil
	}
	out := &clusterv3.OutlierDetection{
		EnforcingSuccessRate:           wrapperspb.UInt32(0),
		EnforcingFailurePercentage:     wrapperspb.UInt32(100),
		FailurePercentageMinimumHosts:  wrapperspb.UInt32(1),
		FailurePercentageRequestVolume: wrapperspb.UInt32(failureVolume),
		MaxEjectionPercent:             percent(o.MaxEjectionPercent),
	}
	if o.EnforcingConsecutive5xx.Set {
		out.EnforcingFailurePercentage = percent(o.EnforcingConsecutive5xx)
	}
	if o.MaxFailures > 0 {
		out.FailurePercentageRequestVolume = wrapperspb.UInt32(o.MaxFailures)
	}
	if o.IntervalMs > 0 {
		out.Interval = durationpb.New(time.Duration(o.IntervalMs) * time.Millisecond)
	}
	if o.BaseEjectionMs > 0 {
		out.BaseEjectionTime = durationpb.New(time.Duration(o.BaseEjectionMs) * time.Millisecond)
	}
	return out
}

// percent is a limit that clients refuse above 100.
func percent(l snapshot.Limit) *wrapperspb.UInt32Value {
	l.Value = min(l.Value, 100)
	return wrap(l)
}

// certificateProvider is the name of the provider in a gRPC client's bootstrap.
const certificateProvider = "default"

// grpcTransport translates how a gRPC client dials; nil is plaintext. Certificates come from where its bootstrap
// says. The identity of the other side is in the deprecated field, the only one that grpc-go reads: with the
// typed one alone it would take any certificate of the authority.
func grpcTransport(t snapshot.Transport) (*corev3.TransportSocket, error) {
	switch t := t.(type) {
	case snapshot.Plaintext:
		return nil, nil
	case snapshot.MutualTLS:
		if t.Peer == "" {
			return nil, fmt.Errorf("the identity of who is dialled with TLS is not known")
		}
		provider := &tlsv3.CertificateProviderPluginInstance{InstanceName: certificateProvider}
		context := &tlsv3.UpstreamTlsContext{Sni: t.SNI, CommonTlsContext: &tlsv3.CommonTlsContext{
			TlsCertificateProviderInstance: provider,
			ValidationContextType: &tlsv3.CommonTlsContext_ValidationContext{
				ValidationContext: &tlsv3.CertificateValidationContext{
					CaCertificateProviderInstance: provider,
					MatchSubjectAltNames: []*matcherv3.StringMatcher{{ //nolint:staticcheck // see above
						MatchPattern: &matcherv3.StringMatcher_Exact{Exact: t.Peer},
					}},
				},
			},
		}}
		return &corev3.TransportSocket{
			Name:       "envoy.transport_sockets.tls",
			ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: pack(context)},
		}, nil
	}
	return nil, fmt.Errorf("it is not said whether it is dialled with TLS")
}
