package identity_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net/url"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/identity"
)

// FuzzIssued looks that whatever comes back for an order is refused, or is what was ordered.
func FuzzIssued(f *testing.F) {
	const uri = "spiffe://t.consul/ns/default/dc/dc1/svc/web"
	root := newRoot(f, "one")
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	u, _ := url.Parse(uri)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), URIs: []*url.URL{u}, NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour),
	}, root.cert, key.Public(), root.key)
	if err != nil {
		f.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		f.Fatal(err)
	}
	leaf, secret := text("CERTIFICATE", der), text("EC PRIVATE KEY", keyDER)
	for _, chain := range []string{leaf, leaf + root.Cert, root.Cert, root.Cert + leaf, secret + leaf, leaf + secret, "", "x" + leaf, leaf[:200]} {
		f.Add(chain, secret)
	}
	f.Add(leaf, leaf+secret)
	f.Add(leaf, "")
	f.Fuzz(func(t *testing.T, chain, key string) {
		issued := identity.Issued{Chain: chain, Key: identity.NewKey([]byte(key))}
		if identity.Check(identity.Order{Service: "web", URI: uri}, issued) == nil {
			pair, err := tls.X509KeyPair([]byte(chain), []byte(key))
			if err != nil || len(pair.Leaf.URIs) != 1 || pair.Leaf.URIs[0].String() != uri {
				t.Errorf("what was not ordered is taken: %v", err)
			}
		}
		identity.RootOf(t, facts.Roots{List: []facts.Root{root.Root, {ID: "fuzz", Cert: chain, Intermediates: []string{chain}}}}, chain)
	})
}
