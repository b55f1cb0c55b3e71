package consulwatch

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// The variables are those of Consul's own commands: here all that a Consul needs that speaks TLS and
// knows its clients by certificate and token.
func TestTheEnvironmentSaysHowToReachConsul(t *testing.T) {
	f := newFake()
	f.server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}
	f.server.StartTLS()
	t.Cleanup(f.server.Close)
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	own := f.server.TLS.Certificates[0] // anybody's will do as the client's
	key, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	cert := write("cert.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]}))
	for name, value := range map[string]string{
		"CONSUL_HTTP_ADDR":       f.server.Listener.Addr().String(),
		"CONSUL_HTTP_SSL":        "true",
		"CONSUL_CACERT":          cert,
		"CONSUL_CLIENT_CERT":     cert,
		"CONSUL_CLIENT_KEY":      write("key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})),
		"CONSUL_HTTP_TOKEN_FILE": write("token", []byte("the-token\n")),
	} {
		t.Setenv(name, value)
	}
	f.set("/v1/agent/self", `{"Config": {"Datacenter": "paris"}}`)
	tokens := make(chan string, 1)
	f.fault = func(_ http.ResponseWriter, r *http.Request) bool {
		tokens <- r.Header.Get("X-Consul-Token")
		return false
	}
	s, err := New(Config{Limits: impatient()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.transport.closeIdle()
	if dc, err := s.Datacenter(t.Context()); dc != "paris" || err != nil {
		t.Errorf("datacenter %q, %v", dc, err)
	}
	if token := <-tokens; token != "the-token" {
		t.Errorf("token %q", token)
	}
}
