// Package evict ends connections and requests that intentions have come to forbid. Envoy's RBAC filters
// judge them when they open and never again; this package has a module of WebAssembly that Envoy runs
// beside those filters and that judges what is open again when the rules change.
//
// In go rules, out comes what Envoy's Wasm filters are configured with. Who may enter is not decided here.
// docs/design/intentions.md says why it is so, and module/evict.c how the module works.
package evict

import (
	_ "embed"
	"errors"
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
	// Keep leaves what such peers have open as it is; without it, it is ended.
	Keep bool
	// Rights are what such peers may do, where it is not everything. When a peer may do less than before, its
	// requests that are still there 2 s later are ended.
	Rights []Right
}

// Right is something that peers may do. What it is does not matter, only whether it is still there.
type Right struct {
	// Name is of letters and digits.
	Name string
	// But are the names of what is taken from it.
	But []string
}

// Text returns rules as the module reads them. The first that matches a peer decides; a peer that none
// matches is ended. An error names the rule that cannot be, or the bound that is passed.
func Text(rules []Rule) (string, error) {
	if len(rules) == 0 || len(rules) > MaxRules {
		return "", fmt.Errorf("evict: %d rules: there must be between 1 and %d", len(rules), MaxRules)
	}
	var b strings.Builder
	for _, r := range rules {
		if err := r.write(&b); err != nil {
			return "", fmt.Errorf("evict: the rule of %q: %w", r.Pattern, err)
		}
	}
	if b.Len() > MaxText {
		return "", fmt.Errorf("evict: the rules have %d bytes: the bound is %d", b.Len(), MaxText)
	}
	return b.String(), nil
}

func (r Rule) write(b *strings.Builder) error {
	if r.Pattern == "" || strings.ContainsAny(r.Pattern, " \n\x00") || strings.Count(r.Pattern, "*") > 1 {
		return errors.New("its pattern is not an identity with at most one *")
	}
	sign := byte('-')
	if r.Keep {
		sign = '+'
	}
	b.WriteByte(sign)
	b.WriteString(r.Pattern)
	for _, right := range r.Rights {
		if !isName(right.Name) {
			return fmt.Errorf("the right %q is not letters and digits", right.Name)
		}
		b.WriteString(" " + right.Name)
		for _, but := range right.But {
			if !isName(but) {
				return fmt.Errorf("%q, taken from the right %q, is not letters and digits", but, right.Name)
			}
			b.WriteString(" " + right.Name + "-" + but)
		}
	}
	b.WriteByte('\n')
	return nil
}

func isName(s string) bool {
	return s != "" && strings.Trim(s, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}
