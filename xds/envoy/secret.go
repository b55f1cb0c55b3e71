package envoy

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"

	"github.com/catenary-mesh/catenary/snapshot"
	"github.com/catenary-mesh/catenary/xds/session"
)

// Leaf encodes a certificate, with those between it and its root, and its key, both as PEM.
func Leaf(name string, chain, key []byte) (*session.Resource, error) {
	msg := &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
		CertificateChain: inlineText(chain), PrivateKey: inlineText(key),
	}}}
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(msg)
	if err != nil {
		return nil, err
	}
	return resource(typeURL(msg), name, body, nil)
}

// roots translates the certificates of the authorities that are trusted.
func roots(name string, r snapshot.Roots) *tlsv3.Secret {
	return &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{
		TrustedCa: inlineText([]byte(r.PEM)),
	}}}
}

func inline(pem []byte) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: pem}}
}

// inlineText is inline as Consul sends PEM.
func inlineText(pem []byte) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: string(pem)}}
}
