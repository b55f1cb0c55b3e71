package entry_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/entry"
)

func FuzzDecodeHCL(f *testing.F)  { fuzz(f, "f.hcl") }
func FuzzDecodeJSON(f *testing.F) { fuzz(f, "f.json") }
func FuzzDecodeYAML(f *testing.F) { fuzz(f, "f.yaml") }

// fuzz decodes anything, begun with the examples in the language: every input has a result, in which
// each problem has its place and each entry can be printed.
func fuzz(f *testing.F, name string) {
	seeds, err := filepath.Glob(filepath.Join("testdata", "seed", "*"+filepath.Ext(name)))
	if err != nil || len(seeds) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, seed := range seeds {
		src, err := os.ReadFile(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		entry.DecodeJSON(src)
		got := entry.Decode(name, src)
		for _, p := range got.Problems {
			if p.Code == "" || p.Origin == "" || p.Message == "" || p.Severity == "" {
				t.Errorf("an incomplete problem: %+v", p)
			}
		}
		for _, e := range got.Entries {
			if chain.New(e.Kind()) == nil {
				t.Errorf("the kind %q", e.Kind())
			}
			if _, err := json.Marshal(e); err != nil {
				t.Errorf("%T cannot be printed: %v", e, err)
			}
		}
		for _, in := range got.Instances {
			if in.Service.Service == "" || in.Service.ID == "" || got.Origins[in] == "" {
				t.Errorf("an incomplete instance: %+v", in)
			}
		}
	})
}
