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

func TestAKeyIsNeverPrinted(t *testing.T) {
	const secret = "very-secret"
	key := identity.NewKey([]byte(secret))
	type inside struct {
		Shown  identity.Key
		hidden identity.Key
	}
	issued := identity.Issued{Chain: "chain", Key: key}
	for _, v := range []any{
		key, &key, issued, &issued, inside{key, key}, &inside{key, key}, []identity.Key{key}, map[string]any{"k": key}, struct{ k any }{key},
	} {
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
		said := out.String()
		if strings.Contains(said, secret) || strings.Contains(said, fmt.Sprintf("%x", secret)) || strings.Contains(said, "118 101 114 121") {
			t.Errorf("%T shows the key:\n%s", v, said)
		}
	}
	if got := fmt.Sprintf("%v %#v", key, key); got != "[redacted] [redacted]" {
		t.Errorf("a key prints %q", got)
	}
	if string(key.PEM()) != secret || identity.NewKey(nil).PEM() != nil || (identity.Key{}).PEM() != nil {
		t.Error("a key is not what it was made from")
	}
}
