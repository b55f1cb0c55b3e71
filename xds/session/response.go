package session

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
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

	form         Form
	controlPlane string
}

// Chunks returns the serialized message of the stream's form in pieces: the bytes of the resources,
// which are shared with all other streams and not to be written to, and a tail of this message's own.
func (r *Response) Chunks() [][]byte {
	chunks := make([][]byte, 0, len(r.Resources)+1)
	for _, res := range r.Resources {
		chunks = append(chunks, res.frame.in(r.form))
	}
	return append(chunks, r.tail())
}

// Bytes returns the size of the serialized message.
func (r *Response) Bytes() int {
	n := r.tailSize()
	for _, res := range r.Resources {
		n += len(res.frame.in(r.form))
	}
	return n
}

// tail is all of the message but its resources.
func (r *Response) tail() []byte {
	b := make([]byte, 0, r.tailSize())
	b = appendText(b, responseVersion, r.Version)
	b = appendText(b, responseTypeURL, r.Type.URL)
	b = appendText(b, responseNonce, r.Nonce)
	if r.form == Delta {
		for _, name := range r.Removed {
			b = appendText(b, deltaRemoved, name)
		}
	}
	if n := textSize(controlPlaneIdentifier, r.controlPlane); n > 0 {
		b = appendHead(b, r.controlPlaneField(), n)
		b = appendText(b, controlPlaneIdentifier, r.controlPlane)
	}
	return b
}

func (r *Response) controlPlaneField() protowire.Number {
	if r.form == Delta {
		return deltaControlPlane
	}
	return sotwControlPlane
}

func (r *Response) tailSize() int {
	n := textSize(responseVersion, r.Version) + textSize(responseTypeURL, r.Type.URL) + textSize(responseNonce, r.Nonce)
	if r.form == Delta {
		for _, name := range r.Removed {
			n += textSize(deltaRemoved, name)
		}
	}
	if m := textSize(controlPlaneIdentifier, r.controlPlane); m > 0 {
		n += fieldSize(r.controlPlaneField(), m)
	}
	return n
}

// SotW returns the response as a state-of-the-world message. Bodies are shared, not copied.
func (r *Response) SotW() *discoveryv3.DiscoveryResponse {
	m := &discoveryv3.DiscoveryResponse{
		VersionInfo: r.Version, TypeUrl: r.Type.URL, Nonce: r.Nonce, ControlPlane: r.identifier(),
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
		SystemVersionInfo: r.Version, TypeUrl: r.Type.URL, Nonce: r.Nonce, ControlPlane: r.identifier(),
		Resources: make([]*discoveryv3.Resource, 0, len(r.Resources)), RemovedResources: r.Removed,
	}
	for _, res := range r.Resources {
		m.Resources = append(m.Resources, &discoveryv3.Resource{
			Name: res.Name, Version: res.Version, Resource: &anypb.Any{TypeUrl: r.Type.URL, Value: res.Body},
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
