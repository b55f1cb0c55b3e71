package identity

import (
	"crypto/x509"
	"testing"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// Known is how many tokens are remembered, beside the anonymous one.
func (v *Verdicts) Known() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := len(v.bearers)
	if v.bearers[Token{}.digest()] != nil {
		n--
	}
	return n
}

// VerdictsOf is how many verdicts are remembered of a token.
func VerdictsOf(v *Verdicts, secret string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.bearer(NewToken(secret)).verdicts)
}

// Serial is how a serial number is written.
func Serial(c *x509.Certificate) string { return serial(c) }

// Check is whether what was issued is what was ordered.
func Check(o Order, got Issued) error {
	_, err := check(o, got)
	return err
}

// RootOf is the root of a chain among roots; empty when it is none of them.
func RootOf(t testing.TB, r facts.Roots, chain string) string {
	t.Helper()
	a, _ := parseRoots(r)
	certs, err := parseChain(chain)
	if err != nil {
		return ""
	}
	id, _ := a.rootOf(certs)
	return id
}
