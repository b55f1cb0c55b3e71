package chain

import (
	"fmt"
	"slices"
	"strings"
)

// step is where a route, a leg or the chain's start leads: to a fork, or else to the resolver of a target.
type step struct {
	fork   *fork
	target *target
}

// key is that of the node, in the chain's Nodes.
func (s step) key() string {
	if s.fork != nil {
		return s.fork.key
	}
	return s.target.key
}

// splitters are those that the chain's nodes will hold: the one at its start, or those that its router
// leads to, each once.
func (s step) splitters() []*fork {
	switch {
	case s.fork == nil:
		return nil
	case !s.fork.isRouter():
		return []*fork{s.fork}
	}
	var found []*fork
	for _, next := range s.fork.next {
		if next.fork != nil && !next.fork.listed {
			next.fork.listed = true
			found = append(found, next.fork)
		}
	}
	return found
}

// fork is a router or a splitter while its chain is made. Its legs may still lead to splitters, even
// back to itself.
type fork struct {
	nodeType, service, key string
	// routes are those of a router's entry and legs those of a splitter's, and next is where each leads;
	// a router's catch-all comes on top.
	routes       []ServiceRoute
	legs         []ServiceSplit
	next         []step
	loadBalancer *LoadBalancer

	// onPath and checked are the state of the search for cycles, listed that of the list of splitters.
	onPath, checked, listed bool
	// size is computed when it is first asked for.
	size size
}

// newFork returns a router or splitter of a service, with room for where its n legs lead.
func (c *compiler) newFork(nodeType, service string, n int) *fork {
	f := c.forks.next()
	f.nodeType, f.service = nodeType, service
	f.key = nodeType + ":" + service + "." + defaultNamespace + "." + defaultPartition
	f.next = make([]step, 0, n)
	return f
}

func (f *fork) isRouter() bool { return f.nodeType == NodeRouter }

// name is the key without the type.
func (f *fork) name() string { return f.key[len(f.nodeType)+1:] }

// checkCycles refuses splitters that lead back to themselves.
func (c *compiler) checkCycles(start step) *Problem {
	if start.fork == nil {
		return nil
	}
	var path []string
	if !start.fork.findsCycle(&path) {
		return nil
	}
	return c.problem(CodeCircularReference, nil, "", fmt.Sprintf(
		"detected circular reference: [%s]", strings.Join(path, " -> ")))
}

// findsCycle searches depth first, with the path from the start to where the search is; after a find
// the path ends with a key that is on it twice. It looks at the last of the following nodes first,
// because Consul does: which of several cycles is reported depends on it.
func (f *fork) findsCycle(path *[]string) bool {
	*path = append(*path, f.key)
	if f.onPath {
		return true
	}
	f.onPath = true
	for _, next := range slices.Backward(f.next) {
		if next.fork != nil && !next.fork.checked && next.fork.findsCycle(path) {
			return true
		}
	}
	*path = (*path)[:len(*path)-1]
	f.onPath, f.checked = false, true
	return false
}
