package scenario

import (
	"bytes"
	"cmp"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "write what comes out to the scenario files")

const wantDir = "want/"

func TestScenarios(t *testing.T) {
	eachScenario(t, func(t *testing.T, path string, ar *txtar.Archive) {
		got := outcome(t, ar)
		if *update {
			write(t, path, ar, got)
			return
		}
		for _, f := range got {
			want, ok := find(ar, f.Name)
			if !ok {
				t.Errorf("%s is missing: run go test ./internal/scenario -update and read what it writes", f.Name)
				continue
			}
			if !bytes.Equal(want, f.Data) {
				t.Errorf("%s:\n%s", f.Name, difference(string(want), string(f.Data)))
			}
		}
		for _, f := range ar.Files {
			if _, ok := find(&txtar.Archive{Files: got}, f.Name); !ok && strings.HasPrefix(f.Name, wantDir) {
				t.Errorf("%s does not come out any more", f.Name)
			}
		}
	})
}

// What comes out must not depend on when or in which order the facts came in: replicas agree, and a
// restart changes nothing.
func TestTheOrderOfFactsDoesNotShow(t *testing.T) {
	eachScenario(t, func(t *testing.T, _ string, ar *txtar.Archive) {
		w := readWorld(t, ar)
		first := encoded(t, w)
		if again := encoded(t, w); !slices.Equal(first, again) {
			t.Error("the same facts came out differently the second time")
		}
		slices.Reverse(w.entries)
		slices.Reverse(w.instances)
		if reversed := encoded(t, w); !slices.Equal(first, reversed) {
			t.Error("the same facts came out differently in the reverse order")
		}
	})
}

func eachScenario(t *testing.T, f func(*testing.T, string, *txtar.Archive)) {
	t.Helper()
	paths, err := filepath.Glob("testdata/scenario/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scenarios in testdata/scenario: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if len(bytes.TrimSpace(ar.Comment)) == 0 {
				t.Error("the file does not begin with a sentence that says what it shows")
			}
			f(t, path, ar)
		})
	}
}

func find(ar *txtar.Archive, name string) ([]byte, bool) {
	for _, f := range ar.Files {
		if f.Name == name {
			return f.Data, true
		}
	}
	return nil, false
}

// write replaces the outputs of a scenario, which come last.
func write(t *testing.T, path string, ar *txtar.Archive, got []txtar.File) {
	t.Helper()
	ar.Files = slices.DeleteFunc(ar.Files, func(f txtar.File) bool { return strings.HasPrefix(f.Name, wantDir) })
	ar.Files = append(ar.Files, got...)
	if err := os.WriteFile(path, txtar.Format(ar), 0o644); err != nil {
		t.Fatal(err)
	}
}

// difference shows what lies between the equal beginning and the equal end of two texts.
func difference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	head := 0
	for head < min(len(a), len(b)) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < min(len(a), len(b))-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	var out strings.Builder
	for _, side := range []struct {
		mark  string
		lines []string
	}{{"want", a[head : len(a)-tail]}, {"got ", b[head : len(b)-tail]}} {
		for _, line := range side.lines {
			out.WriteString(side.mark + " | " + line + "\n")
		}
	}
	return cmp.Or(out.String(), "they differ in their last line")
}
