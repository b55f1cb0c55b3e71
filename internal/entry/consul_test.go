package entry_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/entry"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// TestFilesMeanWhatConsulMakesOfThem writes each file with Consul's own command line, and compares
// what Consul then has with what is decoded here.
func TestFilesMeanWhatConsulMakesOfThem(t *testing.T) {
	consul := testenv.StartConsul(t)
	// In this order, because Consul refuses a chain that does not compile.
	for _, name := range []string{
		"defaults.hcl", "service-defaults.hcl", "resolver.hcl", "redirect.yaml", "splitter.hcl", "router.hcl",
	} {
		t.Run(name, func(t *testing.T) {
			src, err := os.ReadFile(filepath.Join("testdata", "consul", name))
			if err != nil {
				t.Fatal(err)
			}
			want := stored(t, consul, src, filepath.Ext(name) == ".yaml")
			f := entry.Decode(name, src)
			if len(f.Entries) != 1 {
				t.Fatalf("problems %v", f.Problems)
			}
			got := f.Entries[0]
			for _, e := range []chain.Entry{got, want} {
				forgetPlace(e)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Consul's -, ours +:\n%s", diff)
			}
		})
	}
}

// stored is what Consul has after a file was written to it. Consul does not read YAML, so that goes
// there in JSON.
func stored(t *testing.T, consul *testenv.Consul, src []byte, isYAML bool) chain.Entry {
	t.Helper()
	if isYAML {
		var v map[string]any
		if err := yaml.Unmarshal(src, &v); err != nil {
			t.Fatal(err)
		}
		var err error
		if src, err = json.Marshal(v); err != nil {
			t.Fatal(err)
		}
	}
	consul.WriteEntry(string(src))
	head := entry.Decode("-", src).Entries[0]
	resp, err := http.Get("http://" + consul.HTTPAddr() + "/v1/config/" + string(head.Kind()) + "/" + head.Head().Name)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	e, problems := entry.DecodeJSON(raw)
	if len(problems) != 0 {
		t.Fatalf("of Consul's own answer: %v\n%s", problems, raw)
	}
	return e
}

// forgetPlace removes what may differ: where and when an entry was written, and the empty settings
// that Consul prints for missing ones.
func forgetPlace(e chain.Entry) {
	e.Head().Origin, e.Head().ModifyIndex = "", 0
	switch e := e.(type) {
	case *chain.ProxyDefaults:
		if e.TransparentProxy != nil && *e.TransparentProxy == (chain.TransparentProxy{}) {
			e.TransparentProxy = nil
		}
		if e.AccessLogs != nil && *e.AccessLogs == (chain.AccessLogs{}) {
			e.AccessLogs = nil
		}
	case *chain.ServiceDefaults:
		if e.TransparentProxy != nil && *e.TransparentProxy == (chain.TransparentProxy{}) {
			e.TransparentProxy = nil
		}
	}
}
