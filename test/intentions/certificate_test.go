package intentions_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/url"
	"testing"
	"time"
)

const trustDomain = "11111111-2222-3333-4444-555555555555.consul"

// spiffe is the identity of a service, as Consul writes it.
func spiffe(service string) string {
	return "spiffe://" + trustDomain + "/ns/default/dc/dc1/svc/" + service
}

// authority issues leafs as Consul's does: with the identity, and nothing else.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, key: newKey(t)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	a.cert = template
	der := a.sign(template, a.key)
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pem = block("CERTIFICATE", der)
	return a
}

// leaf returns the certificate of a service and its key, in PEM.
func (a *authority) leaf(service string) (cert, key string) {
	id, err := url.Parse(spiffe(service))
	if err != nil {
		a.t.Fatal(err)
	}
	k := newKey(a.t)
	der := a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), URIs: []*url.URL{id},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, k)
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	return block("CERTIFICATE", der), block("PRIVATE KEY", raw)
}

// client is the TLS of a client that is a service.
func (a *authority) client(service string, protocols ...string) *tls.Config {
	cert, key := a.leaf(service)
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		a.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	return &tls.Config{
		Certificates: []tls.Certificate{pair}, NextProtos: protocols, MinVersion: tls.VersionTLS12,
		InsecureSkipVerify: true, // the name of a leaf is an identity and no host; what is tested is the other direction
	}
}

func (a *authority) sign(template *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return der
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func block(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}
