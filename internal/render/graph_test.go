package render

import (
	"regexp"
	"strings"
	"testing"
)

// nasty holds what drawing programs would act on.
const nasty = "a\"b\\ #quot; <b>&amp; `c` %%{init: {}}%% [x] {y} (z) | --> ; end\nnext \x1b[31m größe"

func nastyGraph() *Graph {
	g := &Graph{Edges: []GraphEdge{
		{From: nasty, To: "box", Label: nasty},
		{From: "box", To: "round", Label: `\`, Dashed: true},
		{From: "round", To: "box"},
	}}
	g.Nodes = append(g.Nodes, GraphNode{ID: nasty, Lines: []string{nasty, nasty + `\`}},
		GraphNode{ID: "box", Lines: []string{"box"}}, GraphNode{ID: "round", Lines: []string{""}, Shape: Rounded},
		GraphNode{ID: "six", Lines: []string{"six"}, Shape: Hexagon})
	return g
}

func TestMermaidIsWellFormed(t *testing.T) {
	var out strings.Builder
	if err := Mermaid(&out, nastyGraph()); err != nil {
		t.Fatal(err)
	}
	// Quoted text holds no quote, and < > & # only where they are ours.
	text := `"(?:[^"<>&#%\\` + "`" + `]|<br/>|#\w+;|%[^%])*"`
	node := `n\d+(?:\[` + text + `\]|\(` + text + `\)|\{\{` + text + `\}\})`
	edge := `n\d+ (?:-->|-\.->)(?:\|` + text + `\|)? n\d+`
	checkLines(t, out.String(), "flowchart LR", regexp.MustCompile(`^    (?:`+node+`|`+edge+`)$`))
	if n := strings.Count(out.String(), "\n"); n != 1+4+3 {
		t.Errorf("%d lines", n)
	}
}

func TestDotIsWellFormed(t *testing.T) {
	var out strings.Builder
	if err := Dot(&out, nastyGraph()); err != nil {
		t.Fatal(err)
	}
	text := `"(?:[^"\\]|\\["\\n])*"`
	attribute := `(?:shape=\w+|style=\w+|label=` + text + `|fontname=` + text + `)`
	list := ` \[` + attribute + `(?:, ` + attribute + `)*\];`
	line := regexp.MustCompile(`^(?:    rankdir=LR;|    (?:n\d+|node|edge)` + list + `|    n\d+ -> n\d+` + list + `|\})$`)
	checkLines(t, out.String(), "digraph chain {", line)
	if !strings.HasSuffix(out.String(), "\n}\n") {
		t.Error("it does not end")
	}
}

func checkLines(t *testing.T, text, first string, line *regexp.Regexp) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if lines[0] != first {
		t.Errorf("begins with %q", lines[0])
	}
	for _, l := range lines[1:] {
		if !line.MatchString(l) {
			t.Errorf("not a line of this language: %s", l)
		}
	}
}

func TestEdgesJoinTheirNodes(t *testing.T) {
	g := &Graph{
		Nodes: []GraphNode{{ID: "x", Lines: []string{"one"}}, {ID: "y", Lines: []string{"two", "2"}, Shape: Rounded}},
		Edges: []GraphEdge{{From: "y", To: "x", Label: "90 %"}},
	}
	var dot, mermaid strings.Builder
	if err := Dot(&dot, g); err != nil {
		t.Fatal(err)
	}
	if err := Mermaid(&mermaid, g); err != nil {
		t.Fatal(err)
	}
	want := "flowchart LR\n    n0[\"one\"]\n    n1(\"two<br/>2\")\n    n1 -->|\"90 %\"| n0\n"
	if mermaid.String() != want {
		t.Errorf("%s", mermaid.String())
	}
	if !strings.Contains(dot.String(), `n1 -> n0 [label="90 %"];`) || !strings.Contains(dot.String(), `label="two\n2"`) {
		t.Errorf("%s", dot.String())
	}
}

func TestTreeIndentsByDepth(t *testing.T) {
	var out strings.Builder
	err := Tree(&out, &Branch{Text: "root", Notes: []string{"note\x1b"}, Next: []*Branch{
		{Text: "a", Notes: []string{"of a"}, Next: []*Branch{{Text: "b", Notes: []string{"of\nb"}}}},
		{Text: "c", Next: []*Branch{{Text: "d"}}},
	}})
	want := `
root
│   note 
├─ a
│  │   of a
│  └─ b
│         of b
└─ c
   └─ d
`
	if err != nil || out.String() != want[1:] {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestADeepTreeStaysNarrow(t *testing.T) {
	b := &Branch{Text: "end"}
	const depth = 5000
	for range depth {
		b = &Branch{Text: "x", Next: []*Branch{b}}
	}
	var out strings.Builder
	if err := Tree(&out, b); err != nil || out.Len() > depth*500 || strings.Count(out.String(), "\n") != depth+1 {
		t.Errorf("%v, %d bytes", err, out.Len())
	}
}
