package envoy

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/catenary-mesh/catenary/snapshot"
)

func TestAClusterOfWhichItIsNotSaidHowItIsDialledIsNotServed(t *testing.T) {
	for name, how := range map[string]snapshot.Transport{
		"nothing is said":            nil,
		"nobody is expected with it": snapshot.MutualTLS{SNI: "api.default.dc1.internal.catenary.local"},
	} {
		ref := snapshot.Ref{Name: "api", Key: snapshot.ClusterKey{Name: "api", Transport: how}}
		if msg, _, err := Message(ref, ref.Key); err == nil {
			t.Errorf("%s, and yet it came out as %v", name, msg)
		}
	}
}

func TestMutualTLSNamesItsSecretsAndWhoIsExpected(t *testing.T) {
	c, err := cluster(snapshot.ClusterKey{Name: "api", Transport: snapshot.MutualTLS{
		SNI: "api.example.com", Peer: "spiffe://catenary.local/ns/default/dc/dc2/svc/api",
		Parameters: snapshot.TLSParameters{MinVersion: "TLSv1_2", MaxVersion: "TLSv1_3"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	const ads = `{"ads": {}, "resourceApiVersion": "V3"}`
	wants(t, c.GetTransportSocket(), &corev3.TransportSocket{}, `{"name": "tls", "typedConfig": {
		"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
		"sni": "api.example.com",
		"commonTlsContext": {
			"tlsParams": {"tlsMinimumProtocolVersion": "TLSv1_2", "tlsMaximumProtocolVersion": "TLSv1_3"},
			"tlsCertificateSdsSecretConfigs": [{"name": "leaf", "sdsConfig": `+ads+`}],
			"combinedValidationContext": {
				"defaultValidationContext": {"matchTypedSubjectAltNames": [{"sanType": "URI",
					"matcher": {"exact": "spiffe://catenary.local/ns/default/dc/dc2/svc/api"}}]},
				"validationContextSdsSecretConfig": {"name": "roots", "sdsConfig": `+ads+`}}}}}`)
	for version, want := range map[string]tlsv3.TlsParameters_TlsProtocol{"": 0, "TLS_AUTO": 0, "TLSv1_3": tlsv3.TlsParameters_TLSv1_3} {
		if got := tlsParameters(snapshot.TLSParameters{MinVersion: version}).GetTlsMinimumProtocolVersion(); got != want {
			t.Errorf("%q is %v, want %v", version, got, want)
		}
	}
}
