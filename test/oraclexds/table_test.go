package oraclexds_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// tableFile says which differences there are, and why.
const tableFile = "../../docs/oracle-xds.md"

// row is a row of the table: differences that are known, in whatever matches all of its patterns. A *
// stands for any text, and in a path for any of one element's; ** for any elements.
type row struct {
	kase, path, theirs, ours string
	used                     bool
}

// readTable returns the rows of the table.
func readTable(file string) ([]*row, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var table []*row
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		columns := cells(line)
		if len(columns) != 5 || columns[4] == "" {
			return nil, fmt.Errorf("%s: want case, where, Consul, Catenary and why in: %s", file, line)
		}
		table = append(table, &row{kase: columns[0], path: columns[1], theirs: columns[2], ours: columns[3]})
	}
	return table, nil
}

// cells are the columns of a row, without the marks of code. A bar in one is written \|.
func cells(line string) []string {
	line = strings.ReplaceAll(strings.TrimSpace(line), `\|`, "\x00")
	var list []string
	for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
		list = append(list, strings.Trim(strings.ReplaceAll(strings.TrimSpace(cell), "\x00", "|"), "`"))
	}
	return list
}

// explains marks the row as used when the difference is one of its.
func (r *row) explains(d difference) bool {
	if !like(r.kase, d.kase) || !alongside(strings.Split(r.path, "/"), d.path) || !like(r.theirs, d.theirs) || !like(r.ours, d.ours) {
		return false
	}
	r.used = true
	return true
}

// alongside reports whether a path is one of a pattern's.
func alongside(pattern, path []string) bool {
	if len(pattern) == 0 {
		return len(path) == 0
	}
	if pattern[0] == "**" {
		for i := range len(path) + 1 {
			if alongside(pattern[1:], path[i:]) {
				return true
			}
		}
		return false
	}
	return len(path) > 0 && like(pattern[0], path[0]) && alongside(pattern[1:], path[1:])
}

// like reports whether a text is one of a pattern's.
func like(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile(`(?s)^` + strings.Join(parts, ".*") + `$`).MatchString(text)
}

// unexplained are the differences that are in no row.
func unexplained(table []*row, found []difference) []difference {
	var left []difference
	for _, d := range found {
		explained := false
		for _, r := range table {
			// All rows that match are needed, none is shadowed.
			explained = r.explains(d) || explained
		}
		if !explained {
			left = append(left, d)
		}
	}
	return left
}
