package render

import (
	"io"
	"strings"
)

// Branch is a tree for people: a line, more lines about the same thing, and what hangs below it.
type Branch struct {
	Text  string
	Notes []string
	Next  []*Branch
}

// Tree writes the branch and all below it, one line each, joined by lines that a terminal draws. What a
// terminal would act on (line breaks, escapes) is replaced by a space.
func Tree(w io.Writer, b *Branch) error {
	var out strings.Builder
	b.write(&out, "", "")
	_, err := io.WriteString(w, out.String())
	return err
}

// maxIndent is how far a line is indented at most, in bytes: no terminal shows more, and a tree as deep
// as it is long would take the square of that.
const maxIndent = 400

// write writes a branch whose first line begins with first, and whose other lines with rest.
func (b *Branch) write(out *strings.Builder, first, rest string) {
	if len(rest) > maxIndent {
		rest = "… " // begin again at the left
	}
	out.WriteString(first + printable(b.Text) + "\n")
	bar := "    "
	if len(b.Next) > 0 {
		bar = "│   "
	}
	for _, note := range b.Notes {
		out.WriteString(rest + bar + printable(note) + "\n")
	}
	for i, next := range b.Next {
		if i == len(b.Next)-1 {
			next.write(out, rest+"└─ ", rest+"   ")
		} else {
			next.write(out, rest+"├─ ", rest+"│  ")
		}
	}
}
