package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// purePackages are those whose results depend on their arguments alone, so that a test, a command
// without a server, and the server itself get the same from the same input.
func purePackages() []string {
	return []string{"chain", "chain/explain", "snapshot", "hds", "xds/envoy", "xds/session", "internal/entry", "internal/support", "internal/bootstrap", "internal/journey", "internal/drift"}
}

// pureFiles are the pure part of packages whose other files do I/O.
func pureFiles() []string {
	return []string{
		"destination/names.go", "destination/spell.go", "destination/token.go", "destination/set.go", "destination/seen.go", "destination/http2.go", "destination/encode.go",
		"destination/get.go", "destination/resolve.go", "destination/target.go", "destination/describe.go", "destination/book.go", "destination/profile.go", "destination/routes.go", "destination/shadow.go",
	}
}

// impure is what a pure package may not import (Call is empty) or call.
type impure struct {
	pkg, call string
	why       string
}

func impurities() []impure {
	return []impure{
		{"context", "", "a pure function has nothing to wait for or cancel"},
		{"log", "", "a pure package returns what it has to say"},
		{"log/slog", "", "a pure package returns what it has to say"},
		{"github.com/hashicorp/go-hclog", "", "a pure package returns what it has to say"},
		{"fmt", "Print", "a pure package returns what it has to say"},
		{"os", "", "files, environment and processes are the caller's"},
		{"os/exec", "", "files, environment and processes are the caller's"},
		{"net/http", "", "the network is the caller's"},
		{"net", "Dial", "the network is the caller's"},
		{"net", "Listen", "the network is the caller's"},
		{"net", "Lookup", "the network is the caller's"},
		{"net", "Resolve", "the network is the caller's"},
		{"time", "Now", "the time is an argument"},
		{"time", "Since", "the time is an argument"},
		{"time", "Until", "the time is an argument"},
		{"time", "Sleep", "a pure function does not wait"},
		{"time", "After", "a pure function does not wait"},
		{"time", "Tick", "a pure function does not wait"},
		{"time", "NewTi", "a pure function does not wait"},
		{"math/rand", "", "chance is an argument"},
		{"math/rand/v2", "", "chance is an argument"},
	}
}

func TestPurePackagesArePure(t *testing.T) {
	found := 0
	for _, p := range packages(t) {
		for _, f := range p.files {
			if slices.Contains(pureFiles(), f.name) {
				found++
			} else if !slices.Contains(purePackages(), p.name) {
				continue
			}
			for _, b := range breaches(f.tree) {
				t.Errorf("%s: %s", f.position(b.pos), b.text)
			}
		}
	}
	if found != len(pureFiles()) {
		t.Errorf("%d of the %d files in pureFiles exist", found, len(pureFiles()))
	}
}

type breach struct {
	pos  token.Pos
	text string
}

// breaches returns what a pure package may not do and this file does.
func breaches(file *ast.File) []breach {
	var found []breach
	names := map[string]string{} // the name in the file → the imported path
	for _, spec := range file.Imports {
		imported := strings.Trim(spec.Path.Value, `"`)
		names[imported[strings.LastIndex(imported, "/")+1:]] = imported
		if spec.Name != nil {
			names[spec.Name.Name] = imported
		}
		for _, i := range impurities() {
			if i.call == "" && i.pkg == imported {
				found = append(found, breach{spec.Pos(), "imports " + imported + ": " + i.why})
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = append(found, breach{n.Pos(), "starts a goroutine: who waits for it is the caller's affair"})
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok {
				found = append(found, calls(names[x.Name], n)...)
			}
		}
		return true
	})
	return found
}

func calls(pkg string, n *ast.SelectorExpr) []breach {
	for _, i := range impurities() {
		if i.call != "" && i.pkg == pkg && strings.HasPrefix(n.Sel.Name, i.call) {
			return []breach{{n.Pos(), "uses " + pkg + "." + n.Sel.Name + ": " + i.why}}
		}
	}
	return nil
}

func TestBreachesAreFound(t *testing.T) {
	const source = `package p
import ("os"; clock "time"; "fmt")
func f() { go f(); _ = clock.Now(); fmt.Println(os.Args); _ = fmt.Sprint(); _ = clock.Second }`
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, b := range breaches(file) {
		text, _, _ := strings.Cut(b.text, ":")
		got = append(got, text)
	}
	want := []string{"imports os", "starts a goroutine", "uses time.Now", "uses fmt.Println"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
