package chain

import (
	"fmt"
	"slices"
	"strings"
)

// next lists the keys of the nodes that follow a node.
func (n *Node) next() []string {
	var keys []string
	for _, r := range n.Routes {
		keys = append(keys, r.NextNode)
	}
	for _, s := range n.Splits {
		keys = append(keys, s.NextNode)
	}
	return keys
}

// checkCycles refuses splitters that lead back to themselves.
func (c *compiler) checkCycles(start string) *Problem {
	if c.nodes[start].Type == NodeResolver {
		return nil
	}
	w := walk{nodes: c.nodes, on: make(map[string]bool), done: make(map[string]bool)}
	if !w.findsCycle(start) {
		return nil
	}
	return c.problem(CodeCircularReference, nil, "", fmt.Sprintf(
		"detected circular reference: [%s]", strings.Join(w.path, " -> ")))
}

// walk is a search for a cycle, depth first.
type walk struct {
	nodes map[string]*Node
	// path leads from the start to where the search is, and on holds the same keys; after a find the
	// last node is on the path twice.
	path []string
	on   map[string]bool
	done map[string]bool
}

// findsCycle looks at the last of the following nodes first, because Consul does: which of several
// cycles is reported depends on it.
func (w *walk) findsCycle(key string) bool {
	w.path = append(w.path, key)
	if w.on[key] {
		return true
	}
	w.on[key] = true
	for _, next := range slices.Backward(w.nodes[key].next()) {
		if !w.done[next] && w.findsCycle(next) {
			return true
		}
	}
	w.path = w.path[:len(w.path)-1]
	w.on[key], w.done[key] = false, true
	return false
}
