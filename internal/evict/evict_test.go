package evict

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestTextIsLinesInOrder(t *testing.T) {
	got, err := Text([]Rule{
		{Pattern: "spiffe://td/ns/default/dc/*/svc/web", Keep: true},
		{Pattern: "a", Keep: true, Rights: []Right{{Name: "r1"}, {Name: "r2", But: []string{"b1", "b2"}}}},
		{Pattern: "*"},
	})
	if want := "+spiffe://td/ns/default/dc/*/svc/web\n+a r1 r2 r2-b1 r2-b2\n-*\n"; err != nil || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

func TestRulesThatCannotBeAreRefused(t *testing.T) {
	for name, rules := range map[string][]Rule{
		"none":          nil,
		"empty pattern": {{}},
		"two stars":     {{Pattern: "*/svc/*"}},
		"space":         {{Pattern: "a b"}},
		"right":         {{Pattern: "a", Rights: []Right{{Name: "a-b"}}}},
		"no right":      {{Pattern: "a", Rights: []Right{{}}}},
		"but":           {{Pattern: "a", Rights: []Right{{Name: "a", But: []string{"b c"}}}}},
		"line break":    {{Pattern: "a\n+b"}},
		"too many":      make([]Rule, MaxRules+1),
		"too long":      {{Pattern: strings.Repeat("a", MaxText)}},
	} {
		if text, err := Text(rules); err == nil {
			t.Errorf("%s: %q", name, text)
		}
	}
}

// The module is made from its source by `make evict`, which writes both sums.
func TestTheModuleIsMadeFromItsSource(t *testing.T) {
	if !bytes.HasPrefix(Module(), []byte("\x00asm\x01\x00\x00\x00")) {
		t.Error("the module is not WebAssembly")
	}
	var sums strings.Builder
	for _, file := range []string{"evict.c", "evict.wasm"} {
		raw, err := os.ReadFile("module/" + file)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(raw), file)
	}
	want, err := os.ReadFile("module/evict.sum")
	if err != nil {
		t.Fatal(err)
	}
	if sums.String() != string(want) {
		t.Errorf("evict.sum is\n%sand the files are\n%srun `make evict` after a change of evict.c", want, &sums)
	}
}
