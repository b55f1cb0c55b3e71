package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/catenary-mesh/catenary/chain"
)

// chainRows lists the nodes of a chain in the order in which a request may meet them: for each where
// it goes next, and when.
func chainRows(c *chain.Chain) [][]string {
	var rows [][]string
	seen := map[string]bool{}
	next := []string{c.StartNode}
	for len(next) > 0 {
		key := next[0]
		next = next[1:]
		node := c.Nodes[key]
		if node == nil || seen[key] {
			continue
		}
		seen[key] = true
		for _, s := range steps(node) {
			rows = append(rows, []string{node.Name, node.Type, s.when, s.then})
			if s.node {
				next = append(next, s.then)
			}
		}
	}
	return rows
}

// step is where a request goes from a node: to another node, or to a target.
type step struct {
	when, then string
	node       bool
}

func steps(n *chain.Node) []step {
	var list []step
	for _, r := range n.Routes {
		list = append(list, step{routeMatch(r.Definition), r.NextNode, true})
	}
	for _, s := range n.Splits {
		list = append(list, step{strconv.FormatFloat(float64(s.Weight), 'f', -1, 32) + " %", s.NextNode, true})
	}
	if r := n.Resolver; r != nil {
		list = append(list, step{"", "target " + r.Target, false})
		if r.Failover != nil {
			for i, t := range r.Failover.Targets {
				list = append(list, step{fmt.Sprintf("failover %d", i+1), "target " + t, false})
			}
		}
	}
	return list
}

// routeMatch says in a few words what a route matches.
func routeMatch(r *chain.ServiceRoute) string {
	if r == nil || r.Match == nil || r.Match.HTTP == nil {
		return "any request"
	}
	m := r.Match.HTTP
	var parts []string
	for _, p := range []struct{ name, value string }{
		{"path ", m.PathExact}, {"path prefix ", m.PathPrefix}, {"path ~ ", m.PathRegex},
	} {
		if p.value != "" {
			parts = append(parts, p.name+p.value)
		}
	}
	for _, h := range m.Header {
		parts = append(parts, "header "+h.Name)
	}
	for _, q := range m.QueryParam {
		parts = append(parts, "query "+q.Name)
	}
	if len(m.Methods) > 0 {
		parts = append(parts, "method "+strings.Join(m.Methods, "|"))
	}
	if len(parts) == 0 {
		return "any request"
	}
	return strings.Join(parts, ", ")
}
