// Package evict ends connections that intentions have come to forbid. Envoy's RBAC filters judge a
// connection when it opens and never again; this package has a module of WebAssembly that Envoy runs
// beside them and that judges open connections again when the rules change.
//
// In go rules, out comes what Envoy's Wasm filters are configured with. Who may enter is not decided here.
// docs/design/intentions.md says why it is so, and module/evict.c how the module works.
package evict

import (
	_ "embed"
	"fmt"
	"strings"
)

// The bounds of the module, as module/evict.c has them.
const (
	// MaxRules is how many rules there may be.
	MaxRules = 1 << 13
	// MaxText is how many bytes the text of the rules may have.
	MaxText = 1 << 20
)

//go:embed module/evict.wasm
var module string

// Module returns the module, in WebAssembly's binary format.
func Module() []byte { return []byte(module) }

// Rule says whether peers may stay.
type Rule struct {
	// Pattern is an identity, such as spiffe://TRUST-DOMAIN/ns/default/dc/dc1/svc/web, with at most one *,
	// which stands for any text. A * alone is everybody, also a peer whose certificate has no identity.
	Pattern string
	// Keep leaves the connections of such peers as they are; without it they are ended.
	Keep bool
}

// Text returns rules as the module reads them. The first that matches a peer decides; a peer that none
// matches is ended. An error names the rule that cannot be, or the bound that is passed.
func Text(rules []Rule) (string, error) {
	if len(rules) == 0 || len(rules) > MaxRules {
		return "", fmt.Errorf("evict: %d rules: there must be between 1 and %d", len(rules), MaxRules)
	}
	var b strings.Builder
	for _, r := range rules {
		if r.Pattern == "" || strings.ContainsAny(r.Pattern, "\n\r\x00") || strings.Count(r.Pattern, "*") > 1 {
			return "", fmt.Errorf("evict: the pattern %q is not an identity with at most one *", r.Pattern)
		}
		sign := byte('-')
		if r.Keep {
			sign = '+'
		}
		b.WriteByte(sign)
		b.WriteString(r.Pattern)
		b.WriteByte('\n')
	}
	if b.Len() > MaxText {
		return "", fmt.Errorf("evict: the rules have %d bytes: the bound is %d", b.Len(), MaxText)
	}
	return b.String(), nil
}
