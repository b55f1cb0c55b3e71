package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// head begins the document: what does not depend on a run.
//
//go:embed head.md
var head string

// update writes a report into the document in the place of an older one of the same scenario, and keeps
// the reports of other scenarios.
func update(path string, r report) error {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(path, []byte(merged(string(old), r.scenario.name, r.section())), 0o644)
}

// merged is the document with a new section, in the order of the scenarios.
func merged(old, scenario, section string) string {
	var b strings.Builder
	b.WriteString(head)
	for _, s := range scenarios() {
		begin, end := mark(s.name), mark("end of "+s.name)
		text := section
		if s.name != scenario {
			_, rest, found := strings.Cut(old, begin)
			if text, _, found = cutIf(found, rest, end); !found {
				continue
			}
		}
		fmt.Fprintf(&b, "\n%s%s%s", begin, text, end)
	}
	return b.String()
}

// cutIf is [strings.Cut] if what it cuts was found itself.
func cutIf(found bool, s, sep string) (before, after string, ok bool) {
	if !found {
		return "", "", false
	}
	return strings.Cut(s, sep)
}

func mark(text string) string { return "<!-- " + text + " -->\n" }
