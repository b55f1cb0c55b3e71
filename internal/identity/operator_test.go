package identity_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/catenary-mesh/catenary/internal/identity"
)

func TestTheOperatorIsWhoHasTheTokenOfTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := identity.OpenOperator(file); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("without the file: %v", err)
	}
	write(" \n")
	if _, err := identity.OpenOperator(file); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("an empty file: %v", err)
	}
	write("first\n")
	o, err := identity.OpenOperator(file)
	if err != nil {
		t.Fatal(err)
	}
	is := func(secret string, want bool) {
		t.Helper()
		if got, err := o.Is(secret); got != want || err != nil {
			t.Errorf("%q: %v, %v, want %v", secret, got, err, want)
		}
	}
	is("first", true)
	is("", false)
	is("first ", false)
	write("second")
	is("first", false)
	is("second", true)
	write("")
	if got, err := o.Is(""); got || err == nil {
		t.Errorf("with an empty file there is an operator: %v", err)
	}
	write(strings.Repeat("x", 5000))
	if got, err := o.Is(strings.Repeat("x", 5000)); got || err == nil {
		t.Errorf("with too large a file there is an operator: %v", err)
	}
}
