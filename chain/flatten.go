package chain

import "math"

// splitterNode makes the node of a splitter, with the legs of the splitters below it in place of the
// legs to them: every leg leads to a resolver. There must be no cycles.
//
// With three levels and more the rounded weights depend on the order in which splitters are merged,
// which in Consul is random. Here it is fixed: from the outermost splitter inwards.
func (f *fork) splitterNode() *Node {
	splits := make([]Split, 0, f.size.ends)
	for i := range f.legs {
		leg := &f.legs[i]
		splits = f.next[i].expand(splits, Split{Definition: leg, Weight: leg.Weight})
	}
	return &Node{Type: f.nodeType, Name: f.name(), Splits: pointers(splits), LoadBalancer: f.loadBalancer}
}

// expand appends the leg that leads to the step, or the legs of the splitter there.
func (s step) expand(splits []Split, leg Split) []Split {
	if s.fork == nil {
		leg.NextNode = s.target.key
		return append(splits, leg)
	}
	for i := range s.fork.legs {
		inner := &s.fork.legs[i]
		splits = s.fork.next[i].expand(splits, Split{
			Definition: merged(leg.Definition, inner),
			Weight:     effectiveWeight(leg.Weight, inner.Weight),
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

// roundWeight rounds to 0.01, the resolution of Consul's weights. Adding 0 leaves no negative zero, which
// JSON prints and Consul does not have.
func roundWeight(w float32) float32 {
	return float32(math.Round(float64(w*100))/100) + 0
}

// size is what flattening a splitter comes to; each count goes up to one more than allowed.
type size struct {
	known bool
	// ends counts the legs of the outcome, and legs all that are gone through.
	ends, legs int
	// headers counts the modifiers of all legs gone through, each with those it has from the legs above,
	// and merged is the same without the legs that are not below another: those stay as they are.
	headers, merged int
}

// checkSize refuses a chain whose splitters would have too many legs or headers, before any is made.
func (c *compiler) checkSize(splitters []*fork) *Problem {
	legs, headers := 0, 0
	for _, f := range splitters {
		size := f.measured()
		legs, headers = legs+size.legs, headers+size.merged
		switch {
		case legs > MaxSplits:
			return c.tooLarge("splits", MaxSplits)
		case headers > MaxHeaders:
			return c.tooLarge("header modifiers", MaxHeaders)
		}
	}
	return nil
}

func (f *fork) measured() size {
	if f.size.known {
		return f.size
	}
	n := size{known: true}
	for i, s := range f.next {
		own := f.legs[i].headers()
		below := size{ends: 1}
		if s.fork != nil {
			below = s.fork.measured()
		}
		merged := min(below.headers+own*below.legs, MaxHeaders+1)
		n.ends = min(n.ends+below.ends, MaxSplits+1)
		n.legs = min(n.legs+1+below.legs, MaxSplits+1)
		n.merged = min(n.merged+merged, MaxHeaders+1)
		n.headers = min(n.headers+merged+own, MaxHeaders+1)
	}
	f.size = n
	return n
}

// headers counts the modifiers of a leg, up to one more than a chain may have.
func (s *ServiceSplit) headers() int {
	return min(s.RequestHeaders.count()+s.ResponseHeaders.count(), MaxHeaders+1)
}
