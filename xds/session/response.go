package session

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"
)

// Response is one message to the client. It does not change.
type Response struct {
	Type *Type
	// Nonce is unique on the stream.
	Nonce string
	// Version is a hash over the names and versions of all that the client holds with this response.
	Version string
	// Resources are sorted by name, without duplicates.
	Resources []*Resource
	// Removed (delta) are names that do not exist, or not any more; sorted.
	Removed []string
	// Overdue is how many of the resources go before the client accepted the clusters they refer
	// to, because it took too long.
	Overdue int

	controlPlane *corev3.ControlPlane
}

// SotW returns the response as a state-of-the-world message. Bodies are shared, not copied.
func (r *Response) SotW() *discoveryv3.DiscoveryResponse {
	m := &discoveryv3.DiscoveryResponse{
		VersionInfo: r.Version, TypeUrl: r.Type.URL, Nonce: r.Nonce, ControlPlane: r.controlPlane,
		Resources: make([]*anypb.Any, 0, len(r.Resources)),
	}
	for _, res := range r.Resources {
		m.Resources = append(m.Resources, &anypb.Any{TypeUrl: r.Type.URL, Value: res.Body})
	}
	return m
}

// Delta returns the response as a delta message. Bodies are shared, not copied.
func (r *Response) Delta() *discoveryv3.DeltaDiscoveryResponse {
	m := &discoveryv3.DeltaDiscoveryResponse{
		SystemVersionInfo: r.Version, TypeUrl: r.Type.URL, Nonce: r.Nonce, ControlPlane: r.controlPlane,
		Resources: make([]*discoveryv3.Resource, 0, len(r.Resources)), RemovedResources: r.Removed,
	}
	for _, res := range r.Resources {
		m.Resources = append(m.Resources, &discoveryv3.Resource{
			Name: res.Name, Version: res.Version, Resource: &anypb.Any{TypeUrl: r.Type.URL, Value: res.Body},
		})
	}
	return m
}
