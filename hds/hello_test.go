package hds

import (
	"fmt"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
)

func TestOfAFirstMessageAFewWordsAreKept(t *testing.T) {
	node := &corev3.Node{Id: "web-1", Cluster: "web", Locality: &corev3.Locality{Region: "r", Zone: "z"}}
	for i := range 512 {
		node.Extensions = append(node.Extensions, &corev3.Extension{
			Category: "envoy.filters.http", Name: fmt.Sprintf("envoy.filters.http.%d", i),
			TypeUrls: []string{"envoy.extensions.filters.http.something.v3.Something"},
		})
	}
	node.Extensions = append(node.Extensions, &corev3.Extension{Category: checkerCategory, Name: "envoy.health_checkers.redis"})
	raw := marshal(t, &message{RequestType: &healthv3.HealthCheckRequestOrEndpointHealthResponse_HealthCheckRequest{
		HealthCheckRequest: &healthv3.HealthCheckRequest{Node: node},
	}})
	h, ok, err := DecodeHello(raw)
	if err != nil || !ok || !h.Can.Redis {
		t.Fatalf("%+v, %t, %v", h, ok, err)
	}
	clear(raw) // what is kept is not a part of it
	kept := h.NodeID + h.NodeCluster + h.Region + h.Zone + h.Version + string(h.Metadata)
	if kept != "web-1webrz" {
		t.Errorf("of %d bytes %q is kept", len(raw), kept)
	}
}
