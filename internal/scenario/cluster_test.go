package scenario

import (
	"cmp"
	"fmt"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	aggregatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/aggregate/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// share is a part of the calls of one kind.
type share struct {
	// to is an instance, or why there is none if failed.
	to      string
	failed  bool
	percent float64
	// changes are what the leg of a split changes, as it is printed.
	changes string
	// http2 says that the instance is spoken to in HTTP/2.
	http2 bool
}

func failure(why string) []share { return []share{{to: why, failed: true, percent: 100}} }

func knownCluster(c *clusterv3.Cluster) error {
	if c.GetLoadAssignment() != nil {
		return only(c, "name", "type", "connect_timeout", "circuit_breakers", "load_assignment", "typed_extension_protocol_options")
	}
	if c.GetClusterType() != nil {
		return only(c, "name", "alt_stat_name", "cluster_type", "connect_timeout", "lb_policy")
	}
	return only(c, "name", "alt_stat_name", "type", "eds_cluster_config", "connect_timeout", "common_lb_config",
		"outlier_detection", "circuit_breakers", "lb_policy", "typed_extension_protocol_options",
		"ring_hash_lb_config", "least_request_lb_config", "transport_socket")
}

// spread says how a cluster divides its calls among instances.
func (s *simulator) spread(cluster string) ([]share, error) {
	c := s.clusters[cluster]
	if c == nil {
		return failure("no such cluster"), nil
	}
	if c.GetLoadAssignment() != nil {
		at := c.GetLoadAssignment().GetEndpoints()[0].GetLbEndpoints()[0]
		return []share{{to: s.instance(at), percent: 100}}, nil
	}
	levels := []*clusterv3.Cluster{c}
	if c.GetClusterType() != nil {
		var config aggregatev3.ClusterConfig
		if err := c.GetClusterType().GetTypedConfig().UnmarshalTo(&config); err != nil {
			return nil, err
		}
		levels = nil
		for _, child := range config.GetClusters() {
			if s.clusters[child] != nil { // Envoy passes over a child that it does not have
				levels = append(levels, s.clusters[child])
			}
		}
	}
	return s.priorities(levels)
}

// priorities divides calls among the levels of a failover: each gets what the ones before it are not
// healthy enough for, where a level counts as fully healthy while its healthy share, times the
// overprovisioning factor, is at least 1.
func (s *simulator) priorities(levels []*clusterv3.Cluster) ([]share, error) {
	var shares []share
	left := 100.0
	for _, c := range levels {
		l, err := s.level(c)
		if err != nil {
			return nil, err
		}
		load := min(left, 100*l.availability())
		if load == 0 {
			continue
		}
		left -= load
		for _, host := range l.healthy {
			host.percent *= load / 100
			shares = append(shares, host)
		}
	}
	switch {
	case len(shares) == 0:
		return failure("no healthy upstream"), nil
	case left > 0: // Envoy scales up what there is
		for i := range shares {
			shares[i].percent *= 100 / (100 - left)
		}
	}
	return shares, nil
}

// level is what one cluster of endpoints has.
type level struct {
	healthy []share
	total   int
	factor  float64
}

// availability is how much of the load the level takes, up to 1.
func (l level) availability() float64 {
	if l.total == 0 {
		return 0
	}
	return min(1, float64(len(l.healthy))/float64(l.total)*l.factor)
}

func (s *simulator) level(c *clusterv3.Cluster) (level, error) {
	if c.GetType() != clusterv3.Cluster_EDS {
		return level{}, fmt.Errorf("the simulator does not know cluster type %s of %s", c.GetType(), c.GetName())
	}
	if t := c.GetCommonLbConfig().GetHealthyPanicThreshold(); t == nil || t.GetValue() != 0 {
		return level{}, fmt.Errorf("cluster %s may panic: the simulator knows a threshold of 0 only", c.GetName())
	}
	if err := admits(c); err != nil {
		return level{}, err
	}
	set := s.endpoints[cmp.Or(c.GetEdsClusterConfig().GetServiceName(), c.GetName())]
	const defaultFactor = 1.4
	l := level{factor: defaultFactor}
	http2, err := speaksHTTP2(c)
	if err != nil {
		return level{}, err
	}
	sum := 0.0
	for _, group := range set.GetEndpoints() {
		if err := only(group, "locality", "lb_endpoints", "load_balancing_weight"); err != nil {
			return level{}, err
		}
		for _, e := range group.GetLbEndpoints() {
			l.total++
			if e.GetHealthStatus() != corev3.HealthStatus_HEALTHY {
				continue
			}
			host := share{to: s.instance(e), percent: float64(e.GetLoadBalancingWeight().GetValue()), http2: http2}
			sum += host.percent
			l.healthy = append(l.healthy, host)
		}
	}
	for i := range l.healthy {
		l.healthy[i].percent *= 100 / sum
	}
	return l, nil
}

// admits fails on a limit of 0, with which Envoy refuses what needs a new connection or a place in the
// queue: the simulator does not count.
func admits(c *clusterv3.Cluster) error {
	for _, t := range c.GetCircuitBreakers().GetThresholds() {
		for _, limit := range []*wrapperspb.UInt32Value{t.GetMaxConnections(), t.GetMaxPendingRequests(), t.GetMaxRequests()} {
			if limit != nil && limit.GetValue() == 0 {
				return fmt.Errorf("cluster %s has a limit of 0, which the simulator does not know", c.GetName())
			}
		}
	}
	return nil
}

func (s *simulator) instance(e *endpointv3.LbEndpoint) string {
	at := socket(e.GetEndpoint().GetAddress())
	if name, ok := s.names[at]; ok {
		return name
	}
	return at
}

func speaksHTTP2(c *clusterv3.Cluster) (bool, error) {
	for _, packed := range c.GetTypedExtensionProtocolOptions() {
		var options httpv3.HttpProtocolOptions
		if err := packed.UnmarshalTo(&options); err != nil {
			return false, err
		}
		if options.GetExplicitHttpConfig().GetHttp2ProtocolOptions() == nil {
			return false, fmt.Errorf("the simulator does not know the protocol options of %s", c.GetName())
		}
		return true, nil
	}
	return false, nil
}

// speaks notes the protocol towards the instances where it is not that of the caller.
func speaks(shares []share) []string {
	for i := range shares {
		if shares[i].http2 {
			return []string{"http2"}
		}
	}
	return nil
}
