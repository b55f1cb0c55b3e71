package snapshot

import (
	"net/url"
	"strings"

	"github.com/catenary-mesh/catenary/chain"
)

// Transport is how the endpoints of a cluster are dialled: [Plaintext] or [MutualTLS]. It has no zero value
// that means either: a cluster of which it was forgotten to say cannot be translated.
type Transport interface{ transport() }

// Plaintext is spoken with instances at their own address.
type Plaintext struct{}

// MutualTLS is spoken with mesh targets: with the client's own certificate, and only with who proves to be the
// target.
type MutualTLS struct {
	// SNI is what gateways route by.
	SNI string
	// Peer is the SPIFFE ID that the other side must have.
	Peer       string
	Parameters TLSParameters
}

func (Plaintext) transport() {}
func (MutualTLS) transport() {}

// TLSParameters are what the mesh entry says of TLS in one direction, in comparable form. Empty fields leave
// the choice to Envoy.
type TLSParameters struct {
	// MinVersion and MaxVersion are spelled as in the entry.
	MinVersion, MaxVersion string
	ciphers                string
}

// CipherSuites are spelled as in the entry, in its order.
func (p TLSParameters) CipherSuites() []string {
	if p.ciphers == "" {
		return nil
	}
	return strings.Split(p.ciphers, " ")
}

func tlsParameters(p *chain.MeshTLSParameters) TLSParameters {
	if p == nil {
		return TLSParameters{}
	}
	return TLSParameters{
		MinVersion: p.TLSMinVersion, MaxVersion: p.TLSMaxVersion, ciphers: strings.Join(p.CipherSuites, " "),
	}
}

// outgoing is what the mesh entry says of the TLS of connections to others.
func outgoing(mesh *chain.Mesh) TLSParameters {
	if mesh.TLS == nil {
		return TLSParameters{}
	}
	return tlsParameters(mesh.TLS.Outgoing)
}

// SpiffeID is the identity of a service, as Consul forms it. The namespace and partition of Consul's Community
// Edition are both "default".
func SpiffeID(trustDomain string, t *chain.Target) string {
	var b strings.Builder
	b.WriteString("spiffe://" + trustDomain)
	if t.Partition != "" && t.Partition != "default" {
		b.WriteString("/ap/" + t.Partition)
	}
	namespace := t.Namespace
	if namespace == "" {
		namespace = "default"
	}
	b.WriteString("/ns/" + namespace + "/dc/" + t.Datacenter + "/svc/" + NameInURI(t.Service))
	return b.String()
}

// NameInURI is the name of a service as identities have it, which are URIs: a space, for one, is written %20.
func NameInURI(service string) string { return (&url.URL{Path: "/" + service}).EscapedPath()[1:] }
