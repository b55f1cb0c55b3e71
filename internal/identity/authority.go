package identity

import (
	"bytes"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/catenary-mesh/catenary/internal/facts"
)

const (
	// maxChain bounds the certificates of a chain, and maxPEM their text.
	maxChain = 16
	maxPEM   = 256 << 10
)

// parseChain returns the certificates of a PEM text.
func parseChain(text string) ([]*x509.Certificate, error) {
	if len(text) > maxPEM {
		return nil, fmt.Errorf("the certificates are %d bytes long: more than %d are not taken", len(text), maxPEM)
	}
	var list []*x509.Certificate
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("there is a PEM block %q among the certificates", block.Type)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("a certificate cannot be read: %w", err)
		}
		if list = append(list, cert); len(list) > maxChain {
			return nil, fmt.Errorf("there are more than %d certificates", maxChain)
		}
	}
	if len(list) == 0 {
		return nil, errors.New("there is no certificate as PEM")
	}
	return list, nil
}

// check returns the chain of what was issued if it is what was ordered: for this identity, no authority,
// and of this key.
func check(o Order, got Issued) ([]*x509.Certificate, error) {
	chain, err := parseChain(got.Chain)
	if err != nil {
		return nil, err
	}
	leaf := chain[0]
	switch {
	case len(leaf.URIs) != 1 || leaf.URIs[0].String() != o.URI:
		return nil, fmt.Errorf("the certificate is for %v, and %s was ordered", leaf.URIs, o.URI)
	case leaf.IsCA:
		return nil, errors.New("the certificate is that of an authority")
	case !leaf.NotAfter.After(leaf.NotBefore):
		return nil, errors.New("the certificate is never valid")
	}
	return chain, got.Key.fits([]byte(got.Chain))
}

// factOf is what may be known of a certificate.
func factOf(o Order, leaf *x509.Certificate, root string) facts.Leaf {
	return facts.Leaf{Service: o.Service, URI: o.URI, Serial: serial(leaf), Root: root, NotAfter: leaf.NotAfter}
}

// serial is the serial number as Consul writes it.
func serial(c *x509.Certificate) string {
	var parts []string
	for _, b := range c.SerialNumber.Bytes() {
		parts = append(parts, hex.EncodeToString([]byte{b}))
	}
	return strings.Join(parts, ":")
}

// authority is the roots of the facts, parsed.
type authority struct {
	domain string
	active string // the ID of the root that signs
	roots  []anchor
}

type anchor struct {
	id            string
	cert          *x509.Certificate
	intermediates []*x509.Certificate
}

// parseRoots returns the roots that can be read, the one that signs first, and what is wrong with others.
func parseRoots(r facts.Roots) (*authority, error) {
	a := &authority{domain: r.TrustDomain}
	var wrong error
	for _, root := range r.List {
		parsed, err := parseRoot(root)
		switch {
		case err != nil:
			wrong = errors.Join(wrong, err)
		case root.Active:
			a.active = root.ID
			a.roots = append([]anchor{parsed}, a.roots...)
		default:
			a.roots = append(a.roots, parsed)
		}
	}
	return a, wrong
}

func parseRoot(root facts.Root) (anchor, error) {
	own, err := parseChain(root.Cert)
	if err != nil {
		return anchor{}, fmt.Errorf("root %s: %w", root.ID, err)
	}
	parsed := anchor{id: root.ID, cert: own[0]}
	for _, text := range root.Intermediates {
		more, err := parseChain(text)
		if err != nil {
			return anchor{}, fmt.Errorf("intermediates of root %s: %w", root.ID, err)
		}
		parsed.intermediates = append(parsed.intermediates, more...)
	}
	return parsed, nil
}

// rootOf returns the root by which whoever trusts these roots believes a chain, the one that signs if
// there are several.
func (a *authority) rootOf(chain []*x509.Certificate) (id string, ok bool) {
	for _, root := range a.roots {
		if root.vouches(chain) {
			return root.id, true
		}
	}
	return "", false
}

// vouches reports whether a chain leads to the root. It asks who signed whom, and not what time it is: a
// certificate of a root made just now is dated back, and clocks differ.
func (r anchor) vouches(chain []*x509.Certificate) bool {
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	roots.AddCert(r.cert)
	at := latest(r.cert.NotBefore, chain[0].NotBefore)
	for _, list := range [][]*x509.Certificate{chain[1:], r.intermediates} {
		for _, c := range list {
			if bytes.Equal(c.Raw, r.cert.Raw) {
				continue
			}
			between.AddCert(c)
			at = latest(at, c.NotBefore)
		}
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: between, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	return err == nil
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
