package filesource

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
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

// maxFile bounds what is read of a file.
const maxFile = 16 << 20

// The codes of the problems of files. docs/codes.md says what to do about each.
const (
	CodeUnreadable = "CAT1900"
	CodeDuplicate  = "CAT1902"
	CodePorts      = "CAT1911"
	CodeNoFiles    = "CAT1912"
)

// Set is what the files of some paths hold.
type Set struct {
	Entries   []chain.Entry
	Instances []*facts.Instance

	// origins says where each of the instances is defined.
	origins map[*facts.Instance]string
}

// Load reads files, and the files of directories whose names end in .hcl, .json, .yaml or .yml, in the
// order of their names; directories within a directory are left alone whatever their names, as Consul
// leaves them, and so are pipes, sockets and devices. Sidecars that ask for no port get one. The problems
// are the user's, with file and line; an error is a path that cannot be read, or a file in it, such as a
// link that leads nowhere: what that would hold is not known, and must not pass for gone. The set is what
// could be decoded, which with a problem of severity error is not all.
func Load(paths ...string) (Set, []chain.Problem, error) {
	set := Set{origins: map[*facts.Instance]string{}}
	var problems []chain.Problem
	for _, path := range paths {
		files, err := list(path)
		if err != nil {
			return Set{}, nil, err
		}
		if len(files) == 0 {
			problems = append(problems, noFiles(path))
		}
		for _, name := range files {
			src, err := read(name)
			if err != nil {
				return Set{}, nil, err
			}
			f := entry.Decode(name, src)
			set.Entries = append(set.Entries, f.Entries...)
			set.Instances = append(set.Instances, f.Instances...)
			maps.Copy(set.origins, f.Origins)
			problems = append(problems, f.Problems...)
		}
	}
	problems = append(problems, set.duplicates()...)
	return set, append(problems, set.assignPorts()...), nil
}

// list returns the files of a path.
func list(path string) ([]string, error) {
	if path == Stdin {
		return []string{path}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, reason(err))
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, reason(err))
	}
	var files []string
	for _, e := range entries {
		if !readable(e.Name()) {
			continue
		}
		full := filepath.Join(path, e.Name())
		info, err := os.Stat(full) // follows links: a mounted Kubernetes ConfigMap is made of them
		switch {
		case errors.Is(err, fs.ErrNotExist) && e.Type()&fs.ModeSymlink == 0: // gone meanwhile
		case err != nil:
			return nil, unreadable(full, err)
		case info.Mode().IsRegular(): // a pipe would never end
			files = append(files, full)
		}
	}
	return files, nil
}

// unreadable is why a file of a directory cannot be read.
func unreadable(name string, err error) error {
	if to, linkErr := os.Readlink(name); linkErr == nil {
		return fmt.Errorf("read %s: the link to %s leads to no file (%w): correct or remove it", name, to, reason(err))
	}
	return fmt.Errorf("read %s: %w", name, reason(err))
}

// noFiles warns of a directory that holds nothing to read, which is most often the wrong one.
func noFiles(path string) chain.Problem {
	return chain.Problem{
		Code: CodeNoFiles, Severity: chain.SeverityWarning, Origin: path,
		Message: fmt.Sprintf("the directory has no file to read: want one whose name ends in %s",
			strings.Join(entry.Extensions(), ", ")),
	}
}

// Nothing returns why there is nothing to judge in what was loaded, nil when there is something: a path
// that is a directory without files.
func Nothing(problems []chain.Problem) error {
	for _, p := range problems {
		if p.Code == CodeNoFiles {
			return errors.New(p.String())
		}
	}
	return nil
}

func readable(name string) bool {
	if strings.HasPrefix(name, ".") {
		return false
	}
	return slices.Contains(entry.Extensions(), strings.ToLower(filepath.Ext(name)))
}

func read(name string) ([]byte, error) {
	var in io.Reader = os.Stdin
	if name != Stdin {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, reason(err))
		}
		defer f.Close()
		in = f
	}
	src, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, reason(err))
	}
	if len(src) > maxFile {
		return nil, fmt.Errorf("read %s: larger than %d MiB: split it", name, maxFile>>20)
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

// duplicates finds what is defined twice. Consul ignores the case of names, and of IDs.
func (s Set) duplicates() []chain.Problem {
	var problems []chain.Problem
	seen := map[string]string{}
	note := func(what, key, origin string) {
		key = strings.ToLower(key)
		if first, twice := seen[key]; twice {
			problems = append(problems, chain.Problem{
				Code: CodeDuplicate, Severity: chain.SeverityError, Entry: what, Origin: origin,
				Message: fmt.Sprintf("is defined a second time, the first is at %s: remove one", first),
			})
			return
		}
		seen[key] = origin
	}
	for _, e := range s.Entries {
		name := string(e.Kind()) + "/" + e.Head().Name
		note(name, name, e.Head().Origin)
	}
	for _, in := range s.Instances {
		note("service/"+in.Service.ID, fmt.Sprintf("service %q %q", in.Node.Node, in.Service.ID), s.origins[in])
	}
	return problems
}

// HasErrors reports whether one of the problems is an error.
func HasErrors(problems []chain.Problem) bool {
	return slices.ContainsFunc(problems, chain.Problem.IsError)
}
