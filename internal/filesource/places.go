package filesource

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// places are the directories to watch for a path. They are watched rather than files, because a file
// that is replaced takes its watch with it. Where only some names in a directory count, they are
// listed; nil stands for all.
type places map[string][]string

// maxLinks bounds the links that are followed, some of which may lead in a circle.
const maxLinks = 40

// placesOf lists where a change can change what the path holds: what it leads through by links, the
// directory it is, and what the files in there link to.
func placesOf(path string) places {
	p := places{}
	end, ok := p.follow(path)
	if !ok {
		return p
	}
	entries, err := os.ReadDir(end)
	if err != nil {
		return p
	}
	for _, e := range entries {
		if e.Type()&os.ModeSymlink != 0 && readable(e.Name()) {
			p.follow(filepath.Join(end, e.Name()))
		}
	}
	p[end] = nil
	return p
}

// follow adds every link that a path leads through, and its end, which it returns if it is there.
func (p places) follow(path string) (end string, ok bool) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", false
	}
	end = string(filepath.Separator)
	rest := split(path)
	for links := 0; len(rest) > 0; {
		next := filepath.Join(end, rest[0])
		rest = rest[1:]
		info, err := os.Lstat(next)
		if err != nil {
			p.add(next)
			return "", false
		}
		if info.Mode()&os.ModeSymlink == 0 {
			end = next
			continue
		}
		p.add(next)
		to, err := os.Readlink(next)
		if links++; err != nil || links > maxLinks {
			return "", false
		}
		if filepath.IsAbs(to) {
			end = string(filepath.Separator)
		}
		rest = append(split(to), rest...)
	}
	p.add(end)
	return end, true
}

// split returns the elements of a path; those that lead upwards stay, as what they lead to depends on
// the links before them.
func split(path string) []string {
	return slices.DeleteFunc(strings.Split(path, string(filepath.Separator)), func(s string) bool { return s == "" || s == "." })
}

// add makes a name in a directory count.
func (p places) add(path string) {
	dir, name := filepath.Split(path)
	dir = filepath.Clean(dir)
	if names, ok := p[dir]; ok && names == nil {
		return
	}
	if !slices.Contains(p[dir], name) {
		p[dir] = append(p[dir], name)
	}
}

// concern reports whether a change of a file matters. The change of a watched directory itself does.
func (p places) concern(path string) bool {
	if _, ok := p[path]; ok {
		return true
	}
	names, ok := p[filepath.Dir(path)]
	return ok && (names == nil || slices.Contains(names, filepath.Base(path)))
}
