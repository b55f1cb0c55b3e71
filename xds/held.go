package xds

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/catenary-mesh/catenary/xds/session"
)

// ProxyResources is what one stream of a client was sent, resource by resource.
type ProxyResources struct {
	ID          string           `json:"id"`
	Address     string           `json:"address"`
	ConnectedAt time.Time        `json:"connected_at"`
	Resources   []ResourceStatus `json:"resources"`
}

// The states of a [ResourceStatus].
const (
	// ResourceAccepted is in force, by the client's word.
	ResourceAccepted = "ACCEPTED"
	// ResourceSent is on its way.
	ResourceSent = "SENT"
	// ResourceRefused was refused; what the client accepted before stays in force.
	ResourceRefused = "REFUSED"
	// ResourceGone does not exist, and the client knows.
	ResourceGone = "GONE"
	// ResourceAwaited was asked for, and there is nothing to send yet.
	ResourceAwaited = "AWAITED"
)

// ResourceStatus is what a client was sent of one name.
type ResourceStatus struct {
	// Type is cluster, endpoint, listener, route, secret or extension.
	Type    string `json:"type"`
	Name    string `json:"name"`
	State   string `json:"state"`
	Version string `json:"version,omitempty"`
	// Reason is the client's text where it refused.
	Reason string `json:"reason,omitempty"`
	// Resource is the content of that version in the JSON of protobuf, with the names of fields as they are in
	// the .proto files. Of a secret it is the name and the SHA-256 of what is public in it.
	Resource json.RawMessage `json:"resource,omitempty"`
}

// Resources returns what the streams of a client were sent, in the order in which they began.
func (s *Server) Resources(id string) []ProxyResources {
	r := s.pub.root.Load()
	var list []ProxyResources
	for _, st := range s.streamsInOrder() {
		if st.client.ID != id {
			continue
		}
		p := ProxyResources{ID: id, Address: st.peer.String(), ConnectedAt: st.connected, Resources: []ResourceStatus{}}
		for _, it := range st.book(r) {
			p.Resources = append(p.Resources, resourceStatus(&it))
		}
		list = append(list, p)
	}
	return list
}

func resourceStatus(it *session.Item) ResourceStatus {
	out := ResourceStatus{Type: it.Type.Name, Name: it.Name, Version: it.Version, Resource: inJSON(it.Resource)}
	switch it.Standing {
	case session.Unsent:
		out.State = ResourceAwaited
	case session.Unanswered:
		out.State = ResourceSent
	case session.Accepted:
		out.State = ResourceAccepted
	case session.Denied:
		if out.State = ResourceRefused; it.Nack != nil {
			out.Reason = it.Nack.Message
		}
	case session.Gone:
		out.State = ResourceGone
	}
	return out
}

// inJSON prints a resource; nil when it is not known, or cannot be printed.
func inJSON(r *session.Resource) json.RawMessage {
	if r == nil {
		return nil
	}
	if r.Type.URL == session.SecretURL {
		return fingerprint(r)
	}
	msg, err := (&anypb.Any{TypeUrl: r.Type.URL, Value: r.Body}).UnmarshalNew()
	if err != nil {
		return nil
	}
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(msg)
	if err != nil {
		return nil
	}
	return text
}

// fingerprint tells secrets apart without telling them: by the certificates in them, which are no secret.
func fingerprint(r *session.Resource) json.RawMessage {
	var s tlsv3.Secret
	if err := proto.Unmarshal(r.Body, &s); err != nil {
		return nil
	}
	public := s.GetTlsCertificate().GetCertificateChain()
	if s.GetValidationContext() != nil {
		public = s.GetValidationContext().GetTrustedCa()
	}
	sum := sha256.Sum256(content(public))
	text, err := json.Marshal(map[string]string{"name": s.GetName(), "sha256": hex.EncodeToString(sum[:])})
	if err != nil {
		return nil
	}
	return text
}

func content(d *corev3.DataSource) []byte {
	if text := d.GetInlineString(); text != "" {
		return []byte(text)
	}
	return d.GetInlineBytes()
}
