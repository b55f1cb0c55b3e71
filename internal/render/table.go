package render

import (
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// columnGap is how many spaces part a column from the next.
const columnGap = 3

// Table writes the rows in columns as wide as their widest cell, with the header above them in upper
// case. A row may be shorter than the header; what it has beyond it is left out. What a terminal
// would act on (line breaks, escapes) is replaced by a space: cells hold text that peers sent.
func Table(w io.Writer, header []string, rows [][]string) error {
	lines := make([][]string, 0, len(rows)+1)
	lines = append(lines, make([]string, len(header)))
	for i, h := range header {
		lines[0][i] = strings.ToUpper(h)
	}
	widths := make([]int, len(header))
	for _, row := range rows {
		cells := make([]string, len(header))
		for i := range min(len(row), len(header)) {
			cells[i] = printable(row[i])
		}
		lines = append(lines, cells)
	}
	for _, cells := range lines {
		for i, cell := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var out strings.Builder
	for _, cells := range lines {
		out.WriteString(line(cells, widths))
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// line pads the cells to the widths of their columns, with no space at the end.
func line(cells []string, widths []int) string {
	var out strings.Builder
	for i, cell := range cells {
		out.WriteString(cell)
		out.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+columnGap))
	}
	return strings.TrimRight(out.String(), " ") + "\n"
}

func printable(cell string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, cell)
}
