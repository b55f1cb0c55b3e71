package identity

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/url"
)

// Order is what is to be certified.
type Order struct {
	// Service is as Consul spells it.
	Service string
	// URI is the SPIFFE ID of the service.
	URI string
}

// Issued is a certificate and its key.
type Issued struct {
	// Chain is the certificate as PEM, and after it the intermediates up to, and without, a root.
	Chain string
	Key   Key
}

// Issuer has certificates made. The error is [ErrUnknownToken], an [*Unreachable], a [*Limited], a
// [*Forbidden], or says what is wrong with the order.
type Issuer interface {
	// Issue returns a certificate for the order. It may be the same as the last time while there is no
	// need for another.
	Issue(ctx context.Context, o Order) (Issued, error)
}

// Signer signs certificates for keys that it does not see.
type Signer interface {
	// Sign returns the chain of the certificate for a signing request; both are PEM. The error is one of
	// those of [Issuer].
	Sign(ctx context.Context, csr string) (chain string, err error)
}

// Limited means that there were too many orders, and that the same order can succeed later.
type Limited struct{ Reason string }

// Error implements error.
func (l *Limited) Error() string { return l.Reason }

// Forbidden means that we lack the right to what was ordered.
type Forbidden struct{ Reason string }

// Error implements error.
func (f *Forbidden) Error() string { return f.Reason }

// Signing returns an issuer that makes a new key for each order, EC P-256 as Consul's own clients do, and
// has its certificate signed.
func Signing(s Signer) Issuer { return signing{s} }

type signing struct{ signer Signer }

// Issue implements [Issuer].
func (s signing) Issue(ctx context.Context, o Order) (Issued, error) {
	uri, err := url.Parse(o.URI)
	if err != nil {
		return Issued{}, fmt.Errorf("the identity %q is no URI: %w", o.URI, err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Issued{}, fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return Issued{}, fmt.Errorf("encode a key: %w", err)
	}
	request := &x509.CertificateRequest{URIs: []*url.URL{uri}, SignatureAlgorithm: x509.ECDSAWithSHA256}
	csr, err := x509.CreateCertificateRequest(rand.Reader, request, key)
	if err != nil {
		return Issued{}, fmt.Errorf("make a signing request: %w", err)
	}
	chain, err := s.signer.Sign(ctx, string(encode("CERTIFICATE REQUEST", csr)))
	if err != nil {
		return Issued{}, err
	}
	return Issued{Chain: chain, Key: NewKey(encode("EC PRIVATE KEY", der))}, nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
