package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/support"
)

var update = flag.Bool("update", false, "rewrite what the program says in docs/chain.md")

// What the document holds of the program: what a command prints, run among the example files; one of
// these files; and the fields of a kind.
var (
	printed = regexp.MustCompile("(?s)(<!-- catenary ([^\n]*) -->\n```\\w*\n)(.*?)(```\n)")
	shown   = regexp.MustCompile("(?s)(<!-- file ([^\n]*) -->\n```\\w*\n)(.*?)(```\n)")
	fields  = regexp.MustCompile("(?s)(<!-- fields ([^\n]*) -->\n)(.*?)(<!-- end -->\n)")
)

// TestTheChainDocumentTellsTheTruth regenerates what docs/chain.md shows of the program.
func TestTheChainDocumentTellsTheTruth(t *testing.T) {
	file := filepath.Join(root(t), "docs", "chain.md")
	old, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(root(t), "examples", "chain"))
	text, n := string(old), 0
	replace := func(what *regexp.Regexp, with func(arg string) string) {
		text = what.ReplaceAllStringFunc(text, func(block string) string {
			n++
			m := what.FindStringSubmatch(block)
			return m[1] + with(m[2]) + m[4]
		})
	}
	replace(printed, func(args string) string { return output(t, strings.Fields(args)...) })
	replace(shown, func(name string) string {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	})
	replace(fields, func(kind string) string { return fieldTable(t, chain.Kind(kind)) })
	if n < len(chain.AllKinds())+3 {
		t.Errorf("only %d blocks of the document are of the program: the markers are damaged", n)
	}
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if text != string(old) {
		t.Errorf("docs/chain.md is out of date: go test ./cmd/catenary -run %s -update", t.Name())
	}
}

// output runs a verb in this process.
func output(t *testing.T, args ...string) string {
	t.Helper()
	var out, talk bytes.Buffer
	cmd := newRoot()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&talk)
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("catenary %v: %v %s", args, err, talk.String())
	}
	return out.String()
}

func fieldTable(t *testing.T, kind chain.Kind) string {
	t.Helper()
	list := support.Fields(kind)
	if len(list) == 0 {
		t.Fatalf("%q is no kind", kind)
	}
	var b strings.Builder
	b.WriteString("| field | what becomes of it | |\n|---|---|---|\n")
	for _, f := range list {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.Path, f.Level, f.Note)
	}
	return b.String()
}

// TestEveryKindHasItsTable keeps the document complete.
func TestEveryKindHasItsTable(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root(t), "docs", "chain.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range chain.AllKinds() {
		if !bytes.Contains(text, fmt.Appendf(nil, "<!-- fields %s -->", kind)) {
			t.Errorf("docs/chain.md has no table of the fields of %s", kind)
		}
	}
}
