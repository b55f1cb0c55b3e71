package xds_test

import (
	"bytes"
	"slices"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/protobuf/proto"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
	"github.com/catenary-mesh/catenary/xds/session"
)

// inline is what is in a source of data, of either form.
func inline(d *corev3.DataSource) string { return d.GetInlineString() + string(d.GetInlineBytes()) }

func TestWhatIsToldOfASidecarHasNoSecrets(t *testing.T) {
	m := startMesh(t)
	m.sidecar(facts.Proxy{LocalServicePort: 9})
	m.envoy(testenv.NewestEnvoy).WaitReady()
	m.proxy(sidecarID, xds.StateSynced)
	got, err := ask(t.Context(), m.dial(), &statusv3.ClientStatusRequest{Node: &corev3.Node{Id: sidecarID, Cluster: "web"}})
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	for _, g := range got[0].GetGenericXdsConfigs() {
		if g.GetTypeUrl() != session.SecretURL {
			continue
		}
		secret := parsed(g.GetXdsConfig().GetValue(), &tlsv3.Secret{})
		switch {
		case secret.GetName() != g.GetName():
			t.Errorf("the secret %s is shown as %q", g.GetName(), secret.GetName())
		case secret.GetTlsCertificate() != nil:
			seen = append(seen, "certificate")
			if key := inline(secret.GetTlsCertificate().GetPrivateKey()); key != "[redacted]" {
				t.Errorf("the key is shown as %q", key)
			}
			if shown := inline(secret.GetTlsCertificate().GetCertificateChain()); shown != string(m.chain) {
				t.Errorf("the certificate is shown as %q", shown)
			}
		case secret.GetValidationContext() != nil:
			seen = append(seen, "roots")
			if len(inline(secret.GetValidationContext().GetTrustedCa())) < 100 {
				t.Errorf("the roots are shown as %v", secret)
			}
		}
	}
	slices.Sort(seen)
	if !slices.Equal(seen, []string{"certificate", "roots"}) {
		t.Errorf("shown are %v", seen)
	}
	raw, err := proto.Marshal(&statusv3.ClientStatusResponse{Config: got})
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(m.key) {
		if !bytes.HasPrefix(line, []byte("-----")) && bytes.Contains(raw, bytes.TrimSpace(line)) {
			t.Error("a part of the key is told")
		}
	}
}
