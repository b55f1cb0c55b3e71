package envoy

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/catenary-mesh/catenary/snapshot"
)

// endpoints groups a set by locality. Every locality has a weight, without which gRPC ignores it.
func endpoints(name string, set snapshot.EndpointSet) *endpointv3.ClusterLoadAssignment {
	type place struct{ region, zone string }
	groups := map[place]*endpointv3.LocalityLbEndpoints{}
	out := &endpointv3.ClusterLoadAssignment{ClusterName: name}
	for _, e := range set.Endpoints {
		at := place{e.Region, e.Zone}
		g := groups[at]
		if g == nil {
			g = &endpointv3.LocalityLbEndpoints{
				Locality:            &corev3.Locality{Region: e.Region, Zone: e.Zone},
				LoadBalancingWeight: wrapperspb.UInt32(0),
			}
			groups[at] = g
			out.Endpoints = append(out.Endpoints, g)
		}
		g.LoadBalancingWeight.Value += e.Weight
		g.LbEndpoints = append(g.LbEndpoints, endpoint(e))
	}
	return out
}

func endpoint(e snapshot.Endpoint) *endpointv3.LbEndpoint {
	health := corev3.HealthStatus_HEALTHY
	if e.Health == snapshot.Unhealthy {
		health = corev3.HealthStatus_UNHEALTHY
	}
	return &endpointv3.LbEndpoint{
		HostIdentifier: &endpointv3.LbEndpoint_Endpoint{
			Endpoint: &endpointv3.Endpoint{Address: address(e.Address, e.Port)},
		},
		HealthStatus:        health,
		LoadBalancingWeight: wrapperspb.UInt32(e.Weight),
	}
}

func address(ip string, port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address:       ip,
		PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}
