package filesource

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/entry"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// Stdin is the path that stands for the standard input.
const Stdin = "-"

// maxFile bounds a file. Consul bounds a config entry at 1 MiB or so; this leaves room for many.
const maxFile = 16 << 20

// Set is what a path holds.
type Set struct {
	Entries   []chain.Entry
	Instances []*facts.Instance
}

// Load reads a file, or the files of a directory whose names end in .hcl, .json, .yaml or .yml, in the
// order of their names; directories within it are left alone, as Consul leaves them. The problems are
// the user's, with file and line; an error is a path that cannot be read. The set is what could be
// decoded, which with a problem of severity error is not all.
func Load(path string) (Set, []chain.Problem, error) {
	files, err := list(path)
	if err != nil {
		return Set{}, nil, err
	}
	var set Set
	var problems []chain.Problem
	for _, name := range files {
		src, err := read(name)
		if err != nil {
			return Set{}, nil, err
		}
		f := entry.Decode(name, src)
		set.Entries = append(set.Entries, f.Entries...)
		set.Instances = append(set.Instances, f.Instances...)
		problems = append(problems, f.Problems...)
	}
	return set, append(problems, set.duplicates()...), nil
}

// list returns the files of a path.
func list(path string) ([]string, error) {
	if path == Stdin {
		return []string{path}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("--from %s: %w", path, reason(err))
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("--from %s: %w", path, reason(err))
	}
	var files []string
	for _, e := range entries {
		full := filepath.Join(path, e.Name())
		// Stat follows links: a mounted Kubernetes ConfigMap is made of them.
		if info, err := os.Stat(full); err == nil && !info.IsDir() && readable(e.Name()) {
			files = append(files, full)
		}
	}
	return files, nil
}

func readable(name string) bool {
	if strings.HasPrefix(name, ".") {
		return false
	}
	return slices.Contains([]string{".hcl", ".json", ".yaml", ".yml"}, filepath.Ext(name))
}

func read(name string) ([]byte, error) {
	var in io.Reader = os.Stdin
	if name != Stdin {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("--from %s: %w", name, reason(err))
		}
		defer f.Close()
		in = f
	}
	src, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("--from %s: %w", name, reason(err))
	}
	if len(src) > maxFile {
		return nil, fmt.Errorf("--from %s: larger than %d MiB: split it", name, maxFile>>20)
	}
	return src, nil
}

// reason is an error without the path, which the caller names.
func reason(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// duplicates finds what is defined twice.
func (s Set) duplicates() []chain.Problem {
	var problems []chain.Problem
	seen := map[string]string{}
	note := func(what, key, origin string) {
		if first, twice := seen[key]; twice {
			problems = append(problems, chain.Problem{
				Code: "CAT1902", Severity: "error", Entry: what, Origin: origin,
				Message: fmt.Sprintf("is defined a second time, the first is at %s: remove one", first),
			})
			return
		}
		seen[key] = origin
	}
	for _, e := range s.Entries {
		name := string(e.Kind()) + "/" + e.Head().Name
		note(name, strings.ToLower(name), e.Head().Origin)
	}
	for _, in := range s.Instances {
		note("service/"+in.Service.ID, "service "+in.Node.Node+" "+in.Service.ID, "the service "+in.Service.Service)
	}
	return problems
}

// HasErrors reports whether one of the problems is an error.
func HasErrors(problems []chain.Problem) bool {
	return slices.ContainsFunc(problems, func(p chain.Problem) bool { return p.Severity == "error" })
}
