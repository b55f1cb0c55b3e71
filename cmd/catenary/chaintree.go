package main

import (
	"github.com/catenary-mesh/catenary/chain/explain"
	"github.com/catenary-mesh/catenary/internal/render"
)

// chainTree is an explanation as a tree.
func chainTree(e *explain.Explanation) *render.Branch {
	return &render.Branch{
		Text:  e.Service + " in " + e.Datacenter,
		Notes: factLines(e.Facts),
		Next:  []*render.Branch{stepBranch(e.Start)},
	}
}

func stepBranch(s *explain.Step) *render.Branch {
	text := stepName(s)
	if s.Via != "" {
		text = s.Via + ": " + text
	}
	if s.Share != "" {
		text += ", " + s.Share + " in all"
	}
	text += bracketed(stepSource(s))
	if s.Again {
		text += ", as above"
	}
	b := &render.Branch{Text: text, Notes: factLines(s.Facts)}
	for _, next := range s.Next {
		b.Next = append(b.Next, stepBranch(next))
	}
	return b
}

// stepName calls a step by Consul's word for it.
func stepName(s *explain.Step) string {
	switch s.Kind {
	case explain.KindRouter, explain.KindSplitter:
		return s.Kind + " " + s.Name
	case explain.KindRedirect:
		return "resolver " + s.Name
	}
	return "target " + s.Name
}

func stepSource(s *explain.Step) string {
	if s.From == "" {
		return "no service-resolver"
	}
	return s.From
}

func factLines(list []explain.Fact) []string {
	lines := make([]string, len(list))
	for i, f := range list {
		lines[i] = f.What + bracketed(f.From)
	}
	return lines
}

func bracketed(text string) string {
	if text == "" {
		return ""
	}
	return " [" + text + "]"
}

// chainGraph is an explanation as a graph: what the tree repeats is there once.
func chainGraph(e *explain.Explanation) *render.Graph {
	d := &drawing{has: map[string]bool{}, drawn: map[render.GraphEdge]bool{}}
	d.step(e.Start, "")
	return &d.graph
}

// drawing is a graph in the making.
type drawing struct {
	graph render.Graph
	has   map[string]bool
	drawn map[render.GraphEdge]bool
}

// step draws a step and all that follow it. What only a failover leads to has IDs of its own, under a
// prefix: it does not itself fail over.
func (d *drawing) step(s *explain.Step, prefix string) {
	id := stepID(s, prefix)
	if !d.has[id] {
		d.has[id] = true
		d.graph.Nodes = append(d.graph.Nodes, render.GraphNode{
			ID: id, Shape: stepShape(s.Kind), Lines: []string{stepName(s), stepSource(s)},
		})
	}
	failover := s.Kind == explain.KindTarget // nothing else follows a target
	if failover {
		prefix = "failover "
	}
	for _, next := range s.Next {
		e := render.GraphEdge{From: id, To: stepID(next, prefix), Label: next.Via, Dashed: failover}
		if !d.drawn[e] {
			d.drawn[e] = true
			d.graph.Edges = append(d.graph.Edges, e)
		}
		d.step(next, prefix)
	}
}

func stepID(s *explain.Step, prefix string) string { return prefix + s.Kind + " " + s.Name }

func stepShape(kind string) render.Shape {
	switch kind {
	case explain.KindRouter, explain.KindSplitter:
		return render.Hexagon
	case explain.KindRedirect:
		return render.Rounded
	}
	return render.Box
}
