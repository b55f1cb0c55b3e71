package oracle_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/catenary-mesh/catenary/chain"
)

// oddEntries are the entries of chain/testdata/validate by kind, without kind and name: what each has
// of its own the groups' entries sometimes take over.
func oddEntries(t *testing.T) map[chain.Kind][]object {
	odd := map[chain.Kind][]object{}
	for _, e := range knownEntries(t) {
		kind := refOf(e.doc).kind
		text, err := json.Marshal(e.doc)
		if err != nil {
			t.Fatal(err)
		}
		// Header modifiers of splitters are merged: see generator.headers. And where weights are huge, so is
		// what rounding makes of them below other splitters.
		if kind == chain.KindServiceSplitter && (strings.Contains(string(text), "Headers") || strings.Contains(string(text), "000000")) {
			continue
		}
		delete(e.doc, "Kind")
		delete(e.doc, "Name")
		if len(e.doc) > 0 {
			odd[kind] = append(odd[kind], e.doc)
		}
	}
	return odd
}

// knownEntry is an entry and what Consul is known to do with it.
type knownEntry struct {
	doc    object
	stored bool
}

func knownEntries(t *testing.T) []knownEntry {
	files, err := filepath.Glob("../../chain/testdata/validate/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no entries found", err)
	}
	var all []knownEntry
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var docs []object
		if err := json.Unmarshal(raw, &docs); err != nil {
			t.Fatal(file, err)
		}
		for _, doc := range docs {
			all = append(all, knownEntry{doc, strings.HasSuffix(file, ".stored.json")})
		}
	}
	return all
}
