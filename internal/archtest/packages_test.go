package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// goPackage is a package of the project, without its tests.
type goPackage struct {
	// name is the import path below the module's.
	name  string
	files []goFile
}

type goFile struct {
	name string
	set  *token.FileSet
	tree *ast.File
}

func (f goFile) position(p token.Pos) string {
	return fmt.Sprintf("%s:%d", f.name, f.set.Position(p).Line)
}

// imports returns the import paths of all files, each once, whatever their build tags.
func (p goPackage) imports() []string {
	var all []string
	for _, f := range p.files {
		for _, spec := range f.tree.Imports {
			all = append(all, strings.Trim(spec.Path.Value, `"`))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// packages reads the project's packages in this process: a go list in another would read files that
// the go command then does not know this test depends on, and would take its last result for good.
func packages(t *testing.T) []goPackage {
	t.Helper()
	root := filepath.Join("..", "..")
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Fatalf("the module is not where this package expects it: %v", err)
	}
	byName := map[string][]goFile{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if rel != "." && !holdsPackages(path, d.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go") {
			return nil
		}
		f := goFile{name: filepath.ToSlash(rel), set: token.NewFileSet()}
		if f.tree, err = parser.ParseFile(f.set, path, nil, parser.SkipObjectResolution); err != nil {
			return err
		}
		name := filepath.ToSlash(filepath.Dir(rel))
		byName[name] = append(byName[name], f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var all []goPackage
	for name, files := range byName {
		all = append(all, goPackage{name: name, files: files})
	}
	slices.SortFunc(all, func(a, b goPackage) int { return strings.Compare(a.name, b.name) })
	return all
}

// holdsPackages is false for what the go command passes over as well: hidden folders, test data and
// other modules.
func holdsPackages(path, name string) bool {
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" {
		return false
	}
	_, err := os.Stat(filepath.Join(path, "go.mod"))
	return os.IsNotExist(err)
}
