package envoy

import (
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	aggregatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/aggregate/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/catenary-mesh/catenary/snapshot"
)

const httpOptionsKey = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"

// cluster translates a cluster whose endpoints come over the same stream. The panic threshold is 0,
// as Consul sets it: when no endpoint is healthy, none gets traffic, and failover can take over.
func cluster(k snapshot.ClusterKey) (*clusterv3.Cluster, error) {
	socket, err := transport(k.Transport)
	if err != nil {
		return nil, err
	}
	c := &clusterv3.Cluster{
		Name:                 k.Name,
		AltStatName:          k.Name,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{
			EdsConfig: fromADSWithin(k.FetchTimeout),
		},
		ConnectTimeout:   durationpb.New(k.ConnectTimeout),
		CommonLbConfig:   &clusterv3.Cluster_CommonLbConfig{HealthyPanicThreshold: &typev3.Percent{Value: 0}},
		OutlierDetection: outlier(k.Outlier),
		CircuitBreakers:  breakers(k.Limits),
		TransportSocket:  socket,
	}
	balance(c, k.LoadBalancer)
	if k.Protocol == "http2" || k.Protocol == "grpc" {
		c.TypedExtensionProtocolOptions = map[string]*anypb.Any{httpOptionsKey: pack(http2())}
	}
	return c, nil
}

// aggregate translates a cluster that fails over along its children.
func aggregate(k snapshot.AggregateKey) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:        k.Name,
		AltStatName: k.Name,
		ClusterDiscoveryType: &clusterv3.Cluster_ClusterType{ClusterType: &clusterv3.Cluster_CustomClusterType{
			Name:        "envoy.clusters.aggregate",
			TypedConfig: pack(&aggregatev3.ClusterConfig{Clusters: k.Children()}),
		}},
		ConnectTimeout: durationpb.New(k.ConnectTimeout),
		LbPolicy:       clusterv3.Cluster_CLUSTER_PROVIDED,
	}
}

func fromADS() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ResourceApiVersion:    corev3.ApiVersion_V3,
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
	}
}

// fromADSWithin is fromADS for what Envoy goes on without after a while.
func fromADSWithin(t snapshot.Timeout) *corev3.ConfigSource {
	source := fromADS()
	source.InitialFetchTimeout = setTimeout(t)
	return source
}

func http2() *httpv3.HttpProtocolOptions {
	return &httpv3.HttpProtocolOptions{
		UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{
			ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
				ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{
					Http2ProtocolOptions: &corev3.Http2ProtocolOptions{},
				},
			},
		},
	}
}

// balance sets the load-balancing policy; an unset one is Envoy's default, round robin.
func balance(c *clusterv3.Cluster, lb snapshot.LoadBalancer) {
	switch lb.Policy {
	case "random":
		c.LbPolicy = clusterv3.Cluster_RANDOM
	case "least_request":
		c.LbPolicy = clusterv3.Cluster_LEAST_REQUEST
		if lb.LeastRequestsChoices > 0 {
			c.LbConfig = &clusterv3.Cluster_LeastRequestLbConfig_{
				LeastRequestLbConfig: &clusterv3.Cluster_LeastRequestLbConfig{
					ChoiceCount: wrapperspb.UInt32(lb.LeastRequestsChoices),
				},
			}
		}
	case "ring_hash":
		c.LbPolicy = clusterv3.Cluster_RING_HASH
		if lb.MinRing == 0 && lb.MaxRing == 0 {
			return
		}
		ring := &clusterv3.Cluster_RingHashLbConfig{}
		if lb.MinRing > 0 {
			ring.MinimumRingSize = wrapperspb.UInt64(lb.MinRing)
		}
		if lb.MaxRing > 0 {
			ring.MaximumRingSize = wrapperspb.UInt64(lb.MaxRing)
		}
		c.LbConfig = &clusterv3.Cluster_RingHashLbConfig_{RingHashLbConfig: ring}
	case "maglev":
		c.LbPolicy = clusterv3.Cluster_MAGLEV
	}
}

// outlier is always present, as Consul's is: an empty one has Envoy's defaults.
func outlier(o snapshot.Outlier) *clusterv3.OutlierDetection {
	out := &clusterv3.OutlierDetection{
		EnforcingConsecutive_5Xx: wrap(o.EnforcingConsecutive5xx),
		MaxEjectionPercent:       wrap(o.MaxEjectionPercent),
	}
	if o.IntervalMs > 0 {
		out.Interval = durationpb.New(time.Duration(o.IntervalMs) * time.Millisecond)
	}
	if o.MaxFailures > 0 {
		out.Consecutive_5Xx = wrapperspb.UInt32(o.MaxFailures)
	}
	if o.BaseEjectionMs > 0 {
		out.BaseEjectionTime = durationpb.New(time.Duration(o.BaseEjectionMs) * time.Millisecond)
	}
	return out
}

func breakers(l snapshot.Limits) *clusterv3.CircuitBreakers {
	if l == (snapshot.Limits{}) {
		return &clusterv3.CircuitBreakers{}
	}
	return &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
		MaxConnections:     wrap(l.MaxConnections),
		MaxPendingRequests: wrap(l.MaxPendingRequests),
		MaxRequests:        wrap(l.MaxConcurrentRequests),
	}}}
}

func wrap(l snapshot.Limit) *wrapperspb.UInt32Value {
	if !l.Set {
		return nil
	}
	return wrapperspb.UInt32(l.Value)
}
