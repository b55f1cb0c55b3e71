package chain_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/catenary-mesh/catenary/chain"
)

var update = flag.Bool("update", false, "rewrite the wanted results of the scenarios")

// TestScenarios compiles the entries of each file in testdata/scenario. A file has request.json,
// entries.json and what is wanted: chain.json, or problems.json when there is no chain.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/scenario/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no scenarios found", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			name, got := compileScenario(t, archive)
			if *update {
				updateScenario(t, file, archive, name, got)
				return
			}
			if want := section(archive, name); !bytes.Equal(got, want) {
				t.Errorf("%s: run with -update if this is intended\ngot\n%s\nwant\n%s", name, got, want)
			}
		})
	}
}

// compileScenario returns the name of the section that is wanted, and its content.
func compileScenario(t *testing.T, archive *txtar.Archive) (string, []byte) {
	t.Helper()
	entries := decodeEntries(t, section(archive, "entries.json"))
	c, problems := chain.Compile(decodeRequest(t, section(archive, "request.json")), entries)
	if c == nil {
		return "problems.json", indent(t, problems)
	}
	if len(problems) > 0 {
		t.Errorf("problems beside a chain: %+v", problems)
	}
	return "chain.json", indent(t, c)
}

func decodeEntries(t *testing.T, data []byte) *chain.EntrySet {
	t.Helper()
	entries := &chain.EntrySet{}
	if err := json.Unmarshal(data, entries); err != nil {
		t.Fatal(err)
	}
	return entries
}

func decodeRequest(t *testing.T, data []byte) chain.Request {
	t.Helper()
	var raw map[string]any
	if err := json.Unmarshal(data, &raw); err != nil {
		t.Fatal(err)
	}
	if overrides, ok := raw["Overrides"].(map[string]any); ok && overrides["ConnectTimeout"] != nil {
		d, err := time.ParseDuration(overrides["ConnectTimeout"].(string))
		if err != nil {
			t.Fatal(err)
		}
		overrides["ConnectTimeout"] = d
	}
	plain, err := json.Marshal(raw)
	if err != nil {
		t.Fatal(err)
	}
	var req chain.Request
	if err := json.Unmarshal(plain, &req); err != nil {
		t.Fatal(err)
	}
	return req
}

func indent(t *testing.T, v any) []byte {
	t.Helper()
	out, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(out, '\n')
}

func section(archive *txtar.Archive, name string) []byte {
	for _, f := range archive.Files {
		if f.Name == name {
			return f.Data
		}
	}
	return nil
}

func updateScenario(t *testing.T, file string, archive *txtar.Archive, name string, got []byte) {
	t.Helper()
	kept := &txtar.Archive{Comment: archive.Comment}
	for _, f := range archive.Files {
		if f.Name == "request.json" || f.Name == "entries.json" {
			kept.Files = append(kept.Files, f)
		}
	}
	kept.Files = append(kept.Files, txtar.File{Name: name, Data: got})
	if err := os.WriteFile(file, txtar.Format(kept), 0o644); err != nil {
		t.Fatal(err)
	}
}
