package render

import (
	"fmt"
	"io"
	"strings"
)

// Graph is a directed graph for people, drawn from left to right.
type Graph struct {
	Nodes []GraphNode
	Edges []GraphEdge
}

// GraphNode is a box of a [Graph].
type GraphNode struct {
	// ID tells it from the others. It is not shown.
	ID string
	// Lines are what the box says; the first is its name.
	Lines []string
	Shape Shape
}

// GraphEdge is an arrow of a [Graph], between IDs of its nodes.
type GraphEdge struct {
	From, To, Label string
	// Dashed arrows are those that are seldom taken.
	Dashed bool
}

// Shape is the form of a box.
type Shape int

// The shapes of boxes.
const (
	Box Shape = iota
	Rounded
	Hexagon
)

// number gives each node a name that every drawing program takes.
func (g *Graph) number() map[string]string {
	names := make(map[string]string, len(g.Nodes))
	for i, n := range g.Nodes {
		names[n.ID] = fmt.Sprintf("n%d", i)
	}
	return names
}

// Dot writes the graph in the language of Graphviz.
func Dot(w io.Writer, g *Graph) error {
	shapes := map[Shape]string{
		Box: "shape=box", Rounded: `shape=box, style=rounded`, Hexagon: "shape=hexagon",
	}
	names := g.number()
	var out strings.Builder
	out.WriteString("digraph chain {\n    rankdir=LR;\n    node [fontname=\"sans-serif\"];\n    edge [fontname=\"sans-serif\"];\n")
	for _, n := range g.Nodes {
		fmt.Fprintf(&out, "    %s [%s, label=\"%s\"];\n", names[n.ID], shapes[n.Shape], dotText(n.Lines...))
	}
	for _, e := range g.Edges {
		style := ""
		if e.Dashed {
			style = ", style=dashed"
		}
		fmt.Fprintf(&out, "    %s -> %s [label=\"%s\"%s];\n", names[e.From], names[e.To], dotText(e.Label), style)
	}
	out.WriteString("}\n")
	_, err := io.WriteString(w, out.String())
	return err
}

// dotText is the inside of a quoted label. A backslash would begin an escape there.
func dotText(lines ...string) string {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	texts := make([]string, len(lines))
	for i, line := range lines {
		texts[i] = escape.Replace(printable(line))
	}
	return strings.Join(texts, `\n`)
}

// Mermaid writes the graph as a Mermaid flowchart, as Markdown documents hold it.
func Mermaid(w io.Writer, g *Graph) error {
	shapes := map[Shape][2]string{
		Box: {"[", "]"}, Rounded: {"(", ")"}, Hexagon: {"{{", "}}"},
	}
	names := g.number()
	var out strings.Builder
	out.WriteString("flowchart LR\n")
	for _, n := range g.Nodes {
		s := shapes[n.Shape]
		fmt.Fprintf(&out, "    %s%s\"%s\"%s\n", names[n.ID], s[0], mermaidText(n.Lines...), s[1])
	}
	for _, e := range g.Edges {
		arrow := "-->"
		if e.Dashed {
			arrow = "-.->"
		}
		if e.Label != "" {
			arrow += fmt.Sprintf(`|"%s"|`, mermaidText(e.Label))
		}
		fmt.Fprintf(&out, "    %s %s %s\n", names[e.From], arrow, names[e.To])
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// mermaidText is the inside of a quoted label, where Mermaid knows HTML, Markdown in backticks,
// entities that begin with #, and, in spite of the quotes, comments and directives that begin with %%.
func mermaidText(lines ...string) string {
	escape := strings.NewReplacer(
		`#`, "#35;", `"`, "#quot;", "<", "#lt;", ">", "#gt;", "&", "#amp;", "`", "#96;", `\`, "#92;", "%%", "#37;#37;")
	texts := make([]string, len(lines))
	for i, line := range lines {
		texts[i] = escape.Replace(printable(line))
	}
	return strings.Join(texts, "<br/>")
}
