package integration_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// issuer is a certificate authority.
type issuer struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newIssuer(t *testing.T) *issuer {
	i := &issuer{t: t}
	pair := i.issue(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	i.cert, i.key = pair.Leaf, pair.PrivateKey.(*ecdsa.PrivateKey)
	return i
}

// issue signs a certificate; the first one by its own key.
func (i *issuer) issue(template *x509.Certificate) tls.Certificate {
	i.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Minute), time.Now().Add(time.Hour)
	parent, signer := i.cert, i.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		i.t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		i.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// client returns what a client uses that shows a certificate with a URI; without one, none is shown.
func (i *issuer) client(server *issuer, uri string) *tls.Config {
	i.t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(server.cert)
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	if uri != "" {
		u, err := url.Parse(uri)
		if err != nil {
			i.t.Fatal(err)
		}
		shown := i.issue(&x509.Certificate{URIs: []*url.URL{u}})
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &shown, nil }
	}
	return cfg
}

// files writes a certificate for 127.0.0.1, its key and the authority's certificate.
func (i *issuer) files() (cert, key, ca string) {
	i.t.Helper()
	dir := i.t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			i.t.Fatal(err)
		}
		return path
	}
	pair := i.issue(&x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	der, err := x509.MarshalECPrivateKey(pair.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		i.t.Fatal(err)
	}
	return write("cert.pem", "CERTIFICATE", pair.Leaf.Raw), write("key.pem", "EC PRIVATE KEY", der),
		write("ca.pem", "CERTIFICATE", i.cert.Raw)
}

func TestAStreamIsServedByItsCertificate(t *testing.T) {
	t.Parallel()
	ours, other := newIssuer(t), newIssuer(t)
	cert, key, ca := ours.files()
	c := testenv.StartCatenary(t, nil, "--from", example(t, "shop"), "--grpc-auth", "mtls",
		"--grpc-tls-cert", cert, "--grpc-tls-key", key, "--grpc-tls-ca", ca)
	testenv.Eventually(t, patience, c.Ready)
	const services = "spiffe://catenary.local/ns/default/dc/dc1/svc/"

	as := func(cfg *tls.Config) *caller { return call(t, c.GRPCAddr, "", "web", credentials.NewTLS(cfg), "stock") }
	for _, uri := range []string{services + "web", "spiffe://catenary.local/agent/client/dc/dc1/id/n1"} {
		if got := as(ours.client(ours, uri)).clusters(); len(got) == 0 {
			t.Errorf("with %s: served %v", uri, got)
		}
	}
	as(ours.client(ours, services+"api")).ends(codes.PermissionDenied, "the certificate is of "+services+"api")
	as(ours.client(ours, "")).ends(codes.Unauthenticated, "no certificate")
	// One of another authority ends the connection before there is a stream.
	conn, err := tls.Dial("tcp", c.GRPCAddr, other.client(ours, services+"web"))
	if err == nil {
		_, err = io.ReadAll(conn)
		_ = conn.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "unknown certificate authority") {
		t.Errorf("with a certificate of another authority: %v", err)
	}
	testenv.Eventually(t, patience, func() error {
		if log := c.Log(); strings.Count(log, "a client was refused") != 2 || !strings.Contains(log, "signed by unknown authority") {
			return fmt.Errorf("the log:\n%s", log)
		}
		return nil
	})
}
