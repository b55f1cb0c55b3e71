package identity

import (
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
)

// Redacted is what a [Token] prints.
const Redacted = "[redacted]"

// Token is a secret that a client sends. However it is printed, logged or marshalled, it shows
// [Redacted]. The zero value is no token.
type Token struct {
	// A function, for the reason that [Key] has one.
	clear func() string
}

// NewToken returns the token with this secret; an empty one is no token.
func NewToken(secret string) Token {
	if secret == "" {
		return Token{}
	}
	return Token{func() string { return secret }}
}

// Secret returns what was sent, to be sent on to whoever checks it.
func (t Token) Secret() string {
	if t.clear == nil {
		return ""
	}
	return t.clear()
}

// IsZero reports whether there is no token.
func (t Token) IsZero() bool { return t.clear == nil }

// String returns [Redacted].
func (t Token) String() string { return Redacted }

// Format implements [fmt.Formatter] for every verb: %#v and %x print fields otherwise.
func (t Token) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, Redacted) }

// MarshalText implements [encoding.TextMarshaler], which JSON uses too.
func (t Token) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

// LogValue implements [slog.LogValuer].
func (t Token) LogValue() slog.Value { return slog.StringValue(Redacted) }

// digest is what a token is known by.
type digest [sha256.Size]byte

func (t Token) digest() digest { return sha256.Sum256([]byte(t.Secret())) }
