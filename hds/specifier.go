package hds

import (
	"net"
	"strconv"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	redisv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/health_checkers/redis/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Encode returns the specifier as the message of either protocol version: v2's has other names for the same
// fields, and lacks only those of TLS, which a checker of v2 is never given.
func (s Specifier) Encode() (*healthv3.HealthCheckSpecifier, error) {
	out := &healthv3.HealthCheckSpecifier{Interval: durationpb.New(s.Interval)}
	for _, c := range s.Clusters {
		encoded, err := c.encode()
		if err != nil {
			return nil, err
		}
		out.ClusterHealthChecks = append(out.ClusterHealthChecks, encoded)
	}
	return out, nil
}

func (c Cluster) encode() (*healthv3.ClusterHealthCheck, error) {
	check, err := c.Probe.encode()
	if err != nil {
		return nil, err
	}
	out := &healthv3.ClusterHealthCheck{ClusterName: c.Name, HealthChecks: []*corev3.HealthCheck{check}}
	if c.Probe.TLS {
		socket, err := c.Probe.transport()
		if err != nil {
			return nil, err
		}
		out.TransportSocketMatches = []*clusterv3.Cluster_TransportSocketMatch{{Name: "tls", Match: tlsCriteria(), TransportSocket: socket}}
	}
	for _, l := range c.Localities {
		locality := &healthv3.LocalityEndpoints{Locality: &corev3.Locality{Region: l.Region, Zone: l.Zone}}
		for _, a := range l.Endpoints {
			locality.Endpoints = append(locality.Endpoints, a.encode(c.Probe))
		}
		out.LocalityEndpoints = append(out.LocalityEndpoints, locality)
	}
	return out, nil
}

func (a Address) encode(p Probe) *endpointv3.Endpoint {
	out := &endpointv3.Endpoint{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: a.IP, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: a.Port},
	}}}}
	config := &endpointv3.Endpoint_HealthCheckConfig{PortValue: p.Port}
	if p.Protocol == HTTP && p.Host == "" {
		port := a.Port
		if p.Port != 0 {
			port = p.Port
		}
		// Envoy would send the cluster's name, which servers refuse.
		config.Hostname = net.JoinHostPort(a.IP, strconv.FormatUint(uint64(port), 10))
	}
	if config.PortValue != 0 || config.Hostname != "" {
		out.HealthCheckConfig = config
	}
	return out
}

// Jitter keeps the probes of many checkers apart. That between probes is small, and Envoy only adds it.
const (
	jitterPercent    = 3
	maxInitialJitter = time.Second
)

// initialJitter is how long a checker waits at most before its first probe of an endpoint.
func (p Probe) initialJitter() time.Duration { return min(p.Interval/4, maxInitialJitter) }

func (p Probe) encode() (*corev3.HealthCheck, error) {
	// With the jitter it is the interval on average: there are as many probes as asked for.
	interval := durationpb.New(p.Interval - p.Interval*jitterPercent/(200+jitterPercent))
	out := &corev3.HealthCheck{
		Timeout:  durationpb.New(p.Timeout),
		Interval: interval,
		// The clusters of health discovery never carry traffic, and without this Envoy probes them once a minute.
		NoTrafficInterval:     interval,
		InitialJitter:         durationpb.New(p.initialJitter()),
		IntervalJitterPercent: jitterPercent,
		HealthyThreshold:      wrapperspb.UInt32(p.Healthy),
		UnhealthyThreshold:    wrapperspb.UInt32(p.Unhealthy),
	}
	if p.TLS {
		out.TransportSocketMatchCriteria = tlsCriteria()
	}
	switch p.Protocol {
	case HTTP:
		out.HealthChecker = &corev3.HealthCheck_HttpHealthCheck_{HttpHealthCheck: &corev3.HealthCheck_HttpHealthCheck{
			Host: p.Host, Path: p.Path, ExpectedStatuses: p.statusRanges(),
		}}
	case GRPC:
		out.HealthChecker = &corev3.HealthCheck_GrpcHealthCheck_{GrpcHealthCheck: &corev3.HealthCheck_GrpcHealthCheck{
			ServiceName: p.Path, Authority: p.Host,
		}}
	case Redis:
		config, err := pack(&redisv3.Redis{})
		if err != nil {
			return nil, err
		}
		out.HealthChecker = &corev3.HealthCheck_CustomHealthCheck_{CustomHealthCheck: &corev3.HealthCheck_CustomHealthCheck{
			Name: "envoy.health_checkers.redis", ConfigType: &corev3.HealthCheck_CustomHealthCheck_TypedConfig{TypedConfig: config},
		}}
	case TCP:
		out.HealthChecker = &corev3.HealthCheck_TcpHealthCheck_{TcpHealthCheck: &corev3.HealthCheck_TcpHealthCheck{}}
	}
	return out, nil
}

func (p Probe) statusRanges() []*typev3.Int64Range {
	if p.Statuses == "" {
		return nil
	}
	var out []*typev3.Int64Range
	ranges, _ := statusRanges(p.Statuses) // a probe with others has a problem, and comes to no specifier
	for _, r := range ranges {
		out = append(out, &typev3.Int64Range{Start: int64(r.First), End: int64(r.Last) + 1})
	}
	return out
}

// tlsCriteria joins the check to the transport socket; matches without criteria go unused.
func tlsCriteria() *structpb.Struct {
	return &structpb.Struct{Fields: map[string]*structpb.Value{"hds": structpb.NewStringValue("tls")}}
}

// transport is TLS without a look at the certificate.
func (p Probe) transport() (*corev3.TransportSocket, error) {
	context := &tlsv3.UpstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{}, Sni: p.sni()}
	if p.Protocol == GRPC {
		context.CommonTlsContext.AlpnProtocols = []string{"h2"}
	}
	config, err := pack(context)
	if err != nil {
		return nil, err
	}
	return &corev3.TransportSocket{
		Name:       "envoy.transport_sockets.tls",
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: config},
	}, nil
}

// sni is the host without its port.
func (p Probe) sni() string {
	if host, _, err := net.SplitHostPort(p.Host); err == nil {
		return host
	}
	return p.Host
}

// pack is deterministic: a checker compares the bytes of what it is told.
func pack(m proto.Message) (*anypb.Any, error) {
	out := &anypb.Any{}
	return out, anypb.MarshalFrom(out, m, proto.MarshalOptions{Deterministic: true})
}
