package xds_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"net/url"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/catenary-mesh/catenary/xds"
)

// authority issues certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.key = a.newKey()
	a.cert = a.sign(template, template, &a.key.PublicKey, a.key)
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return key
}

func (a *authority) sign(template, parent *x509.Certificate, public *ecdsa.PublicKey, key *ecdsa.PrivateKey) *x509.Certificate {
	a.t.Helper()
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Minute), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert
}

// issue returns a certificate with URIs.
func (a *authority) issue(uris ...string) tls.Certificate {
	a.t.Helper()
	template := &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	for _, text := range uris {
		uri, err := url.Parse(text)
		if err != nil {
			a.t.Fatal(err)
		}
		template.URIs = append(template.URIs, uri)
	}
	key := a.newKey()
	cert := a.sign(template, a.cert, &key.PublicKey, a.key)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// server is what a server uses that looks at certificates where there are some.
func (a *authority) server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{a.issue()},
		ClientCAs: a.pool(), ClientAuth: tls.VerifyClientCertIfGiven,
	}
}

// client is what a client uses that shows certificates, if any.
func (a *authority) client(show ...tls.Certificate) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: a.pool(), Certificates: show}
}

func TestACertificateAdmitsTheServiceItNames(t *testing.T) {
	ca := newAuthority(t)
	g := startGate(t, xds.GuardConfig{Certificates: true}, ca.server())
	const base = "spiffe://td.consul/ns/default/dc/dc1/svc/"
	for name, c := range map[string]struct {
		uris    []string
		service string
		secrets bool
		code    codes.Code
	}{
		"its own":              {[]string{base + "web"}, "web", true, codes.OK},
		"a domain as written":  {[]string{"spiffe://TD.consul/ns/default/dc/DC1/svc/web"}, "web", true, codes.OK},
		"in other letters":     {[]string{base + "WEB"}, "web", false, codes.PermissionDenied},
		"one of several":       {[]string{base + "api", base + "web"}, "web", true, codes.OK},
		"none named":           {nil, "web", false, codes.OK},
		"no service's":         {[]string{"spiffe://td.consul/agent/client/dc/dc1/id/n1"}, "web", false, codes.OK},
		"no service spoken":    {[]string{base + "web"}, "", false, codes.OK},
		"another service's":    {[]string{base + "api"}, "web", false, codes.PermissionDenied},
		"of another domain":    {[]string{"spiffe://other.consul/ns/default/dc/dc1/svc/web"}, "web", false, codes.PermissionDenied},
		"of another dc":        {[]string{"spiffe://td.consul/ns/default/dc/dc2/svc/web"}, "web", false, codes.PermissionDenied},
		"of another namespace": {[]string{"spiffe://td.consul/ns/team/dc/dc1/svc/web"}, "web", false, codes.PermissionDenied},
		"of another partition": {[]string{"spiffe://td.consul/ap/p/ns/default/dc/dc1/svc/web"}, "web", false, codes.PermissionDenied},
		"with more behind":     {[]string{base + "web?x=y"}, "web", false, codes.PermissionDenied},
		"escaped":              {[]string{base + "w%65b"}, "web", false, codes.PermissionDenied},
		"with a path in it":    {[]string{base + "web/svc/api"}, "web", false, codes.PermissionDenied},
	} {
		t.Run(name, func(t *testing.T) {
			k := g.knock("", c.service, ca.client(ca.issue(c.uris...)))
			if c.code != codes.OK {
				k.ends(t, c.code, base+"web")
				return
			}
			if reader, secrets := k.admitted(t); reader != "" || secrets != c.secrets {
				t.Errorf("reader %q, secrets %v", reader, secrets)
			}
		})
	}
	g.knock("", "web", ca.client()).ends(t, codes.Unauthenticated, "no certificate")
	g.knock(webToken, "web", ca.client()).ends(t, codes.Unauthenticated, "no certificate")
	// One of another authority does not get through the handshake.
	other := newAuthority(t).issue(base + "web")
	insisting := ca.client()
	insisting.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &other, nil }
	conn, err := tls.Dial("tcp", g.addr, insisting)
	if err == nil {
		_, err = conn.Read(make([]byte, 1))
		conn.Close()
	}
	if err == nil {
		t.Error("a certificate of another authority is taken")
	}
}

func TestOneOfTheWaysSuffices(t *testing.T) {
	ca := newAuthority(t)
	g := startGate(t, xds.GuardConfig{Certificates: true, Tokens: runVerdicts(t, webRules())}, ca.server())
	const base = "spiffe://td.consul/ns/default/dc/dc1/svc/"
	named, unnamed := ca.issue(base+"web"), ca.issue()
	for name, c := range map[string]struct {
		token           string
		show            []tls.Certificate
		limited, secret bool
	}{
		"the token alone":              {webToken, nil, true, true},
		"the certificate alone":        {"", []tls.Certificate{named}, false, true},
		"a certificate without a name": {"", []tls.Certificate{unnamed}, false, false},
		"the token proves more":        {webToken, []tls.Certificate{unnamed}, true, true},
		"the certificate proves more":  {"wrong", []tls.Certificate{named}, false, true},
		"the certificate still reads":  {"wrong", []tls.Certificate{unnamed}, false, false},
		"the token of another":         {webToken, []tls.Certificate{ca.issue(base + "api")}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			reader, secrets := g.knock(c.token, "web", ca.client(c.show...)).admitted(t)
			if (reader != "") != c.limited || secrets != c.secret {
				t.Errorf("reader %q, secrets %v", reader, secrets)
			}
		})
	}
	g.knock("", "web", ca.client()).ends(t, codes.Unauthenticated, "; or: ")
	g.knock("wrong", "web", ca.client(ca.issue(base+"api"))).ends(t, codes.PermissionDenied, "certificate is of")
	g.knock(webToken, "api", ca.client()).ends(t, codes.PermissionDenied, `service:write on "api"`)
}
