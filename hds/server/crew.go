package server

import "github.com/catenary-mesh/catenary/hds"

// crew is what the checkers can do that work, and on which node; elsewhere is for those on several.
type crew struct {
	connected int
	nodes     map[hds.Capability]string
	elsewhere map[hds.Capability]bool
}

func (e *engine) crew() crew {
	c := crew{connected: len(e.checkers), nodes: map[hds.Capability]string{}, elsewhere: map[hds.Capability]bool{}}
	for _, checker := range e.checkers {
		if checker.active == nil {
			continue
		}
		x := checker.describe()
		node, known := c.nodes[x.Can]
		if c.nodes[x.Can] = x.Node; known && node != x.Node {
			c.elsewhere[x.Can] = true
		}
	}
	return c
}

// lacks says why no checker has an endpoint.
func (c crew) lacks(x hds.Explanation) string {
	able, apart := false, false
	for can, node := range c.nodes {
		if can.Can(x.Duty.Probe) {
			able = true
			apart = apart || c.elsewhere[can] || node == "" || node != x.Duty.Node
		}
	}
	text := "no checker has it yet, or all have as many endpoints as they can have"
	switch {
	case c.connected == 0:
		text = "no checker is connected"
	case len(c.nodes) == 0:
		text = "all checkers are broken"
	case !able:
		text = "no checker can do this probe"
	case !apart:
		text = "those who could probe it are on its own node, and never judge it alone"
	}
	if x.Verdict != hds.Unknown {
		return "kept for a while: " + text
	}
	return text
}
