package xds

import (
	"bytes"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

func TestNoSecretOfAnyKindIsShown(t *testing.T) {
	hidden := func() *corev3.DataSource {
		return &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: "hush"}}
	}
	raw := &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: []byte("hush")}}
	provider, err := anypb.New(hidden())
	if err != nil {
		t.Fatal(err)
	}
	open := &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: "public"}}
	for name, s := range map[string]*tlsv3.Secret{
		"a key": {Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
			CertificateChain: open, PrivateKey: hidden(), Password: raw, Pkcs12: hidden(),
		}}},
		"a key elsewhere": {Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
			CertificateChain: open, PrivateKeyProvider: &tlsv3.PrivateKeyProvider{
				ProviderName: "x", ConfigType: &tlsv3.PrivateKeyProvider_TypedConfig{TypedConfig: provider},
			},
		}}},
		"tickets": {Type: &tlsv3.Secret_SessionTicketKeys{SessionTicketKeys: &tlsv3.TlsSessionTicketKeys{
			Keys: []*corev3.DataSource{hidden(), raw},
		}}},
		"generic": {Type: &tlsv3.Secret_GenericSecret{GenericSecret: &tlsv3.GenericSecret{
			Secret: hidden(), Secrets: map[string]*corev3.DataSource{"a": raw},
		}}},
	} {
		s.Name = "api"
		body, err := proto.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		shown := redacted("api", body)
		if bytes.Contains(shown.GetValue(), []byte("hush")) {
			t.Errorf("%s: shown is %q", name, shown)
		}
		got := &tlsv3.Secret{}
		if err := shown.UnmarshalTo(got); err != nil || got.GetName() != "api" {
			t.Errorf("%s: shown is %v, %v", name, got, err)
		}
		if bytes.Contains(body, []byte("public")) && !bytes.Contains(shown.GetValue(), []byte("public")) {
			t.Errorf("%s: what is no secret is missing: %v", name, got)
		}
	}
	for name, body := range map[string][]byte{
		"not a message":    []byte("hush"),
		"an unknown field": {0xfa, 0x3e, 4, 'h', 'u', 's', 'h'},
	} {
		shown := redacted("api", body)
		if bytes.Contains(shown.GetValue(), []byte("hush")) || !bytes.Contains(shown.GetValue(), []byte("api")) {
			t.Errorf("%s: shown is %q", name, shown)
		}
	}
}
