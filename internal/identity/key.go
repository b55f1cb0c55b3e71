package identity

import (
	"crypto"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// Key is the private key of a certificate, as PEM. However it is printed, logged or marshalled, it shows
// [Redacted]. It is kept in memory only. The zero value is no key.
type Key struct {
	// A function, because fmt asks no method of what lies in an unexported field, and of a function it
	// can print only the address.
	clear func() []byte
}

// NewKey returns the key with this PEM, which must not change.
func NewKey(pem []byte) Key { return Key{func() []byte { return pem }} }

// PEM returns the key in clear, for whoever it was made for. It must not be changed.
func (k Key) PEM() []byte {
	if k.clear == nil {
		return nil
	}
	return k.clear()
}

// String returns [Redacted].
func (k Key) String() string { return Redacted }

// Format implements [fmt.Formatter] for every verb: %#v and %x print fields otherwise.
func (k Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, Redacted) }

// MarshalText implements [encoding.TextMarshaler], which JSON uses too.
func (k Key) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

// LogValue implements [slog.LogValuer].
func (k Key) LogValue() slog.Value { return slog.StringValue(Redacted) }

var errKey = errors.New("the private key is not one, or not that of the certificate")

// fits returns an error unless the key is that of the first certificate of a chain. What is wrong with
// it is not told: the words of the decoders are not ours to vouch for.
func (k Key) fits(chain []byte) error {
	pair, err := tls.X509KeyPair(chain, k.PEM())
	if err != nil {
		return errKey
	}
	if _, ok := pair.PrivateKey.(crypto.Signer); !ok {
		return errKey
	}
	return nil
}
