package session

import (
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// NewVersion makes a resource with a version that a test can read.
func NewVersion(t *Type, name, version string, body []byte, refs []string) *Resource {
	return newResource(t, name, version, body, refs)
}

// Keep gives a resource of a test a TTL.
func (r *Resource) Keep(ttl time.Duration) { r.TTL = ttl }

// SotW returns the state-of-the-world message that the pieces of a response are to be.
func (r *Response) SotW() *discoveryv3.DiscoveryResponse {
	m := &discoveryv3.DiscoveryResponse{
		VersionInfo: r.Version, TypeUrl: r.Type.URL, Nonce: r.Nonce, ControlPlane: r.identifier(),
	}
	for _, res := range r.Resources {
		body := &anypb.Any{TypeUrl: r.Type.URL, Value: res.Body}
		if r.leases && res.TTL > 0 {
			body = wrap(&discoveryv3.Resource{
				Name: res.Name, Version: res.Version, Resource: body, Ttl: durationpb.New(res.TTL),
			})
		}
		m.Resources = append(m.Resources, body)
	}
	for _, res := range r.Heartbeats {
		m.Resources = append(m.Resources, wrap(&discoveryv3.Resource{
			Name: res.Name, Version: r.Version, Ttl: durationpb.New(res.TTL),
		}))
	}
	return m
}

func wrap(r *discoveryv3.Resource) *anypb.Any {
	a, err := anypb.New(r)
	if err != nil {
		panic(err)
	}
	return a
}

// Delta returns the delta message that the pieces of a response are to be.
func (r *Response) Delta() *discoveryv3.DeltaDiscoveryResponse {
	m := &discoveryv3.DeltaDiscoveryResponse{
		SystemVersionInfo: r.Version, TypeUrl: r.Type.URL, Nonce: r.Nonce, ControlPlane: r.identifier(),
		RemovedResources: r.Removed,
	}
	for _, res := range r.Resources {
		wrapped := &discoveryv3.Resource{
			Name: res.Name, Version: res.Version, Resource: &anypb.Any{TypeUrl: r.Type.URL, Value: res.Body},
		}
		if r.leases && res.TTL > 0 {
			wrapped.Ttl = durationpb.New(res.TTL)
		}
		m.Resources = append(m.Resources, wrapped)
	}
	for _, res := range r.Heartbeats {
		m.Resources = append(m.Resources, &discoveryv3.Resource{
			Name: res.Name, Version: res.Version, Ttl: durationpb.New(res.TTL),
		})
	}
	return m
}

func (r *Response) identifier() *corev3.ControlPlane {
	if r.controlPlane == "" {
		return nil
	}
	return &corev3.ControlPlane{Identifier: r.controlPlane}
}
