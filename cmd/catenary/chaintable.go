package main

import (
	"fmt"
	"strconv"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/chain/explain"
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
		list = append(list, step{explain.Match(r.Definition), r.NextNode, true})
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
