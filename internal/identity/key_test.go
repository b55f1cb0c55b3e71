package identity_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/catenary-mesh/catenary/internal/identity"
)

const secret = "very-secret"

// printed is what all who print show of a value.
func printed(v any) string {
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&out, verb+"\n", v)
	}
	if b, err := json.Marshal(v); err == nil {
		out.Write(b)
	}
	if b, err := xml.Marshal(v); err == nil {
		out.Write(b)
	}
	slog.New(slog.NewTextHandler(&out, nil)).Info("m", "k", v)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "k", v)
	hclog.New(&hclog.LoggerOptions{Output: &out}).Info("m", "k", v)
	hclog.New(&hclog.LoggerOptions{Output: &out, JSONFormat: true}).Info("m", "k", v)
	return out.String()
}

// hides fails the test when a value shows the secret.
func hides(t *testing.T, v any) {
	t.Helper()
	said := printed(v)
	if strings.Contains(said, secret) || strings.Contains(said, fmt.Sprintf("%x", secret)) || strings.Contains(said, "118 101 114 121") {
		t.Errorf("%T shows the secret:\n%s", v, said)
	}
}

// neverPrinted fails the test when a value shows the secret, wherever it lies.
func neverPrinted[T any](t *testing.T, v T) {
	t.Helper()
	type inside struct {
		Shown  T
		hidden T
	}
	for _, in := range []any{
		v, &v, inside{v, v}, &inside{v, v}, []T{v}, map[string]any{"k": v}, struct{ k any }{v}, struct{ k *inside }{&inside{v, v}},
	} {
		hides(t, in)
	}
	if got := fmt.Sprintf("%v %#v", v, v); got != "[redacted] [redacted]" {
		t.Errorf("%T prints %q", v, got)
	}
}

func TestAKeyIsNeverPrinted(t *testing.T) {
	key := identity.NewKey([]byte(secret))
	neverPrinted(t, key)
	hides(t, identity.Issued{Chain: "chain", Key: key})
	if string(key.PEM()) != secret || identity.NewKey(nil).PEM() != nil || (identity.Key{}).PEM() != nil {
		t.Error("a key is not what it was made from")
	}
}

func TestATokenIsNeverPrinted(t *testing.T) {
	token := identity.NewToken(secret)
	neverPrinted(t, token)
	hides(t, identity.Request{Token: token, Service: "web"})
	if token.Secret() != secret || token.IsZero() {
		t.Error("a token is not what it was made from")
	}
	if none := identity.NewToken(""); none.Secret() != "" || !none.IsZero() || !(identity.Token{}).IsZero() {
		t.Error("no token is one")
	}
}
