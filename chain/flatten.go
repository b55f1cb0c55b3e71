package chain

import "math"

// flatten returns the nodes that can be reached from the start once every splitter's legs lead to
// resolvers only. There must be no cycles.
//
// With three levels and more the rounded weights depend on the order in which splitters are merged,
// which in Consul is random. Here it is fixed: from the outermost splitter inwards.
func (c *compiler) flatten(start string) (map[string]*Node, *Problem) {
	if problem := c.checkSize(start); problem != nil {
		return nil, problem
	}
	flat := make(map[string]*Node, len(c.nodes))
	c.keep(flat, start)
	return flat, nil
}

// keep adds a node and all that follow it, with splitters merged into the first on each way.
func (c *compiler) keep(flat map[string]*Node, key string) {
	if flat[key] != nil {
		return
	}
	node := c.nodes[key]
	if node.Type == NodeSplitter {
		node = c.merge(node)
	}
	flat[key] = node
	for _, r := range node.Routes {
		c.keep(flat, r.NextNode)
	}
	for _, s := range node.Splits {
		c.keep(flat, s.NextNode)
	}
}

// merge returns the splitter with the legs of the splitters below it in place of the legs to them.
func (c *compiler) merge(node *Node) *Node {
	nested := false
	for _, s := range node.Splits {
		nested = nested || c.nodes[s.NextNode].Type == NodeSplitter
	}
	if !nested {
		return node
	}
	out := *node
	out.Splits = nil
	for _, s := range node.Splits {
		out.Splits = c.expand(out.Splits, s)
	}
	return &out
}

// expand appends the leg, or the legs of the splitter it leads to.
func (c *compiler) expand(splits []*Split, s *Split) []*Split {
	next := c.nodes[s.NextNode]
	if next.Type != NodeSplitter {
		return append(splits, s)
	}
	for _, inner := range next.Splits {
		splits = c.expand(splits, &Split{
			Definition: merged(s.Definition, inner.Definition),
			Weight:     effectiveWeight(s.Weight, inner.Weight),
			NextNode:   inner.NextNode,
		})
	}
	return splits
}

// effectiveWeight is the share of a leg of a splitter that itself gets only a share. The arithmetic
// is single precision because Consul's is.
func effectiveWeight(outer, inner float32) float32 {
	product := float32(outer * inner)
	return roundWeight(product / 100)
}

// roundWeight rounds to 0.01, the resolution of Consul's weights.
func roundWeight(w float32) float32 {
	return float32(math.Round(float64(w*100)) / 100)
}

// checkSize refuses a chain whose splitters would have too many legs, before any is made.
func (c *compiler) checkSize(start string) *Problem {
	sizes := make(map[string]int)
	tops := []string{start}
	if c.nodes[start].Type == NodeRouter {
		tops = c.nodes[start].next()
	}
	total, counted := 0, make(map[string]bool)
	for _, key := range tops {
		if !counted[key] {
			counted[key] = true
			total += c.size(sizes, key)
		}
		if total > MaxSplits {
			return c.tooLarge("splits", MaxSplits)
		}
	}
	return nil
}

// size counts the legs that merging a splitter goes through, up to one more than allowed.
func (c *compiler) size(sizes map[string]int, key string) int {
	node := c.nodes[key]
	if n, ok := sizes[key]; ok {
		return n
	}
	n := 0
	for _, s := range node.Splits {
		n = min(n+1+c.size(sizes, s.NextNode), MaxSplits+1)
	}
	sizes[key] = n
	return n
}
