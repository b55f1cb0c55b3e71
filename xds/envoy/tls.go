package envoy

import (
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"

	"github.com/catenary-mesh/catenary/snapshot"
)

// transport translates how a cluster is dialled; nil is plaintext.
func transport(t snapshot.Transport) (*corev3.TransportSocket, error) {
	switch t := t.(type) {
	case snapshot.Plaintext:
		return nil, nil
	case snapshot.MutualTLS:
		if t.Peer == "" {
			return nil, fmt.Errorf("the identity of who is dialled with TLS is not known")
		}
		common := commonTLS(t.Parameters)
		common.ValidationContextType = &tlsv3.CommonTlsContext_CombinedValidationContext{
			CombinedValidationContext: &tlsv3.CommonTlsContext_CombinedCertificateValidationContext{
				DefaultValidationContext: &tlsv3.CertificateValidationContext{
					MatchTypedSubjectAltNames: []*tlsv3.SubjectAltNameMatcher{{
						SanType: tlsv3.SubjectAltNameMatcher_URI,
						Matcher: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: t.Peer}},
					}},
				},
				ValidationContextSdsSecretConfig: secret(snapshot.RootsSecret),
			},
		}
		return socketTLS(&tlsv3.UpstreamTlsContext{CommonTlsContext: common, Sni: t.SNI}), nil
	}
	return nil, fmt.Errorf("it is not said whether it is dialled with TLS")
}

// commonTLS is what both directions have in common: the own certificate, by its name, and parameters. How the
// other side is validated is left to the caller.
func commonTLS(p snapshot.TLSParameters) *tlsv3.CommonTlsContext {
	return &tlsv3.CommonTlsContext{
		TlsParams:                      tlsParameters(p),
		TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{secret(snapshot.LeafSecret)},
	}
}

// secret refers to a secret that comes over the same stream.
func secret(name string) *tlsv3.SdsSecretConfig {
	return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: fromADS()}
}

func socketTLS(context proto.Message) *corev3.TransportSocket {
	return &corev3.TransportSocket{
		Name:       "tls",
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: pack(context)},
	}
}

// tlsVersions are Consul's words for versions of TLS.
var tlsVersions = map[string]tlsv3.TlsParameters_TlsProtocol{
	"TLS_AUTO": tlsv3.TlsParameters_TLS_AUTO,
	"TLSv1_0":  tlsv3.TlsParameters_TLSv1_0,
	"TLSv1_1":  tlsv3.TlsParameters_TLSv1_1,
	"TLSv1_2":  tlsv3.TlsParameters_TLSv1_2,
	"TLSv1_3":  tlsv3.TlsParameters_TLSv1_3,
}

// cipherSuites are the names of cipher suites in the library that Envoy uses.
var cipherSuites = map[string]string{
	"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256":       "ECDHE-ECDSA-AES128-GCM-SHA256",
	"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
	"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256":         "ECDHE-RSA-AES128-GCM-SHA256",
	"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256":   "ECDHE-RSA-CHACHA20-POLY1305",
	"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA":          "ECDHE-ECDSA-AES128-SHA",
	"TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA":            "ECDHE-RSA-AES128-SHA",
	"TLS_RSA_WITH_AES_128_GCM_SHA256":               "AES128-GCM-SHA256",
	"TLS_RSA_WITH_AES_128_CBC_SHA":                  "AES128-SHA",
	"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384":       "ECDHE-ECDSA-AES256-GCM-SHA384",
	"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384":         "ECDHE-RSA-AES256-GCM-SHA384",
	"TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA":          "ECDHE-ECDSA-AES256-SHA",
	"TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA":            "ECDHE-RSA-AES256-SHA",
	"TLS_RSA_WITH_AES_256_GCM_SHA384":               "AES256-GCM-SHA384",
	"TLS_RSA_WITH_AES_256_CBC_SHA":                  "AES256-SHA",
}

func tlsParameters(p snapshot.TLSParameters) *tlsv3.TlsParameters {
	out := &tlsv3.TlsParameters{
		TlsMinimumProtocolVersion: tlsVersions[p.MinVersion],
		TlsMaximumProtocolVersion: tlsVersions[p.MaxVersion],
	}
	for _, suite := range p.CipherSuites() {
		if name, ok := cipherSuites[suite]; ok {
			out.CipherSuites = append(out.CipherSuites, name)
		}
	}
	return out
}
