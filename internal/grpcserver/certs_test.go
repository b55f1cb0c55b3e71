package grpcserver

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"testing"

	"google.golang.org/grpc/credentials"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// filesOf returns files with a certificate of the authority, which is that of clients too.
func filesOf(a *testenv.Authority) Files {
	cert, key := a.Issue("first")
	return Files{cert, key, a.CAFile}
}

// renew replaces certificate and key by others of the authority.
func renew(t testing.TB, a *testenv.Authority, f Files, name string) {
	t.Helper()
	cert, key := a.Issue(name)
	write(t, f.Cert, read(t, cert))
	write(t, f.Key, read(t, key))
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// write replaces a file as tools do it: by another that gets its name.
func write(t testing.TB, path string, raw []byte) {
	t.Helper()
	if err := os.WriteFile(path+"~", raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+"~", path); err != nil {
		t.Fatal(err)
	}
}

// trusting returns how a client connects that trusts the authority, with a certificate of another if one
// is given.
func trusting(t testing.TB, a *testenv.Authority, own ...*testenv.Authority) credentials.TransportCredentials {
	t.Helper()
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(read(t, a.CAFile))
	for _, o := range own {
		pair, err := tls.LoadX509KeyPair(o.Issue("client"))
		if err != nil {
			t.Fatal(err)
		}
		// A client would not show one that the server does not ask for.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return credentials.NewTLS(config)
}
