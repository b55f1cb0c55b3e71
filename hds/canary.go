package hds

import (
	"fmt"
	"time"
)

// Shape is what one checker tries before others get it: a probe, for a family of addresses, by a version of
// Envoy.
type Shape struct {
	Probe   Probe
	IPv6    bool
	Version string
}

// ShapeOf is the shape of a duty for a checker of the version. The address must be canonical.
func ShapeOf(d Duty, version string) Shape {
	s := Shape{Probe: d.Probe, Version: version}
	for i := range len(d.Address) {
		s.IPv6 = s.IPv6 || d.Address[i] == ':'
	}
	return s
}

// Canary lets new shapes of duty out to one checker each, and to the others once that one has reported on
// them. A shape whose checker went away is tried again beside few others, then by itself; at the third time it is
// given to nobody for a while. It is not safe for concurrent use.
type Canary struct {
	shapes map[Shape]*trial
	// trials are the shapes that a checker tries.
	trials map[string]map[Shape]struct{}
}

// trial is what is known of a shape.
type trial struct {
	proven  bool
	checker string
	strikes int
	struck  time.Time
}

const (
	maxStrikes   = 3
	penance      = 10 * time.Minute
	maxShapes    = 65536
	forgetShapes = maxShapes / 2
)

// NewCanary returns a canary that knows no shape.
func NewCanary() *Canary {
	return &Canary{shapes: map[Shape]*trial{}, trials: map[string]map[Shape]struct{}{}}
}

// Admit reports whether the checker may be given the shape now, and why not. The first who asks for a new
// shape tries it.
func (c *Canary) Admit(now time.Time, s Shape, checker string) (ok bool, why string) {
	t, known := c.shapes[s]
	if !known {
		c.forget()
		t = &trial{}
		c.shapes[s] = t
	}
	switch {
	case t.proven || t.checker == checker:
		return true, ""
	case t.checker != "":
		return false, "another checker tries it first"
	case t.strikes >= maxStrikes && now.Sub(t.struck) < penance:
		return false, fmt.Sprintf("%d checkers in a row went away as they got it: it is tried again %v after the last", t.strikes, penance)
	case !c.roomFor(t, checker):
		return false, "few are tried at a time, because a checker went away as it got it"
	}
	t.checker = checker
	if c.trials[checker] == nil {
		c.trials[checker] = map[Shape]struct{}{}
	}
	c.trials[checker][s] = struct{}{}
	return true, ""
}

// together is how many shapes a checker tries at a time, by the strikes of the worst: a normal end of a
// checker puts all that it tried under suspicion, and soon tells them apart from one that ends it.
func together(strikes int) int {
	return [...]int{maxShapes, 16, 1, 1}[min(strikes, maxStrikes)]
}

// roomFor reports whether the checker may try one more.
func (c *Canary) roomFor(t *trial, checker string) bool {
	most := together(t.strikes)
	for s := range c.trials[checker] {
		most = min(most, together(c.shapes[s].strikes))
	}
	return len(c.trials[checker]) < most
}

// Trying reports whether the checker tries anything.
func (c *Canary) Trying(checker string) bool { return len(c.trials[checker]) > 0 }

// Prove says that the checker reports as it was told, and with it on all that it tries. It reports whether
// that is news: others may have the shapes now.
func (c *Canary) Prove(checker string) bool {
	tried := c.trials[checker]
	for s := range tried {
		*c.shapes[s] = trial{proven: true}
	}
	delete(c.trials, checker)
	return len(tried) > 0
}

// Gone says that the checker went away. What it tried is under suspicion. It reports whether there was
// anything: others may try it now.
func (c *Canary) Gone(now time.Time, checker string) bool {
	tried := c.trials[checker]
	for s := range tried {
		t := c.shapes[s]
		t.checker, t.strikes, t.struck = "", min(t.strikes+1, maxStrikes), now
	}
	delete(c.trials, checker)
	return len(tried) > 0
}

// forget keeps the shapes from growing without bound: what is proven can be proven again.
func (c *Canary) forget() {
	if len(c.shapes) < maxShapes {
		return
	}
	for s, t := range c.shapes {
		if len(c.shapes) <= forgetShapes {
			return
		}
		if t.checker == "" {
			delete(c.shapes, s)
		}
	}
}
