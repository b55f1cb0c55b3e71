package testenv

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority issues certificates for tests.
type Authority struct {
	// CAFile is the PEM file of its own certificate.
	CAFile string

	t      testing.TB
	dir    string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	serial int64
}

// NewAuthority makes an authority whose files are gone after the test.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t, dir: t.TempDir(), serial: 1}
	a.CAFile = filepath.Join(a.dir, "ca.pem")
	template := a.template("testenv CA")
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	a.key = newKey(t)
	a.cert = template
	der := a.sign(template, a.key)
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.write(a.CAFile, "CERTIFICATE", der)
	return a
}

// Issue makes a certificate for servers and clients with names and 127.0.0.1, and returns its files. The
// same file name replaces it.
func (a *Authority) Issue(file string, names ...string) (certFile, keyFile string) {
	a.t.Helper()
	return a.issue(file, a.template(file), names)
}

// IssueURI is Issue for a client that is known by a URI.
func (a *Authority) IssueURI(file, uri string) (certFile, keyFile string) {
	a.t.Helper()
	u, err := url.Parse(uri)
	if err != nil {
		a.t.Fatal(err)
	}
	template := a.template(file)
	template.URIs = []*url.URL{u}
	return a.issue(file, template, nil)
}

func (a *Authority) issue(file string, template *x509.Certificate, names []string) (certFile, keyFile string) {
	a.t.Helper()
	template.DNSNames, template.IPAddresses = names, []net.IP{net.IPv4(127, 0, 0, 1)}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	key := newKey(a.t)
	certFile, keyFile = filepath.Join(a.dir, file+".pem"), filepath.Join(a.dir, file+"-key.pem")
	a.write(certFile, "CERTIFICATE", a.sign(template, key))
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(keyFile, "PRIVATE KEY", der)
	return certFile, keyFile
}

func (a *Authority) template(name string) *x509.Certificate {
	a.serial++
	return &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
}

func (a *Authority) sign(template *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatalf("testenv: make a certificate: %v", err)
	}
	return der
}

func (a *Authority) write(file, kind string, der []byte) {
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// WithTLS has the server speak TLS for RPC, by certificates of the authority, and with verify refuse
// whoever has none. The HTTP API stays plain.
func WithTLS(a *Authority, verify bool) ConsulOption {
	return func(c *Consul) {
		cert, key := a.Issue("server", "server."+c.datacenter+".consul", "localhost")
		c.hcl = append(c.hcl, fmt.Sprintf(
			`tls { internal_rpc { ca_file = %q, cert_file = %q, key_file = %q, verify_incoming = %t, verify_outgoing = true } }`,
			a.CAFile, cert, key, verify))
	}
}

// WithGRPCTLS has the server speak TLS on a second port of the public gRPC API, by certificates of the
// authority, and with verify refuse whoever has none.
func WithGRPCTLS(a *Authority, verify bool) ConsulOption {
	return func(c *Consul) {
		cert, key := a.Issue("grpc", "localhost")
		c.ports["grpc-tls-port"] = FreePort(c.t)
		c.hcl = append(c.hcl, fmt.Sprintf(
			`tls { grpc { ca_file = %q, cert_file = %q, key_file = %q, verify_incoming = %t } }`, a.CAFile, cert, key, verify))
	}
}

// GRPCTLSAddr returns host:port of the public gRPC API with TLS, for a server with [WithGRPCTLS].
func (c *Consul) GRPCTLSAddr() string { return fmt.Sprintf("127.0.0.1:%d", c.ports["grpc-tls-port"]) }
