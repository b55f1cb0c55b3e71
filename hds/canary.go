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
// them. A shape whose checker went away is tried again, by itself; one that does so three times is given to
// nobody for a while. It is not safe for concurrent use.
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
	case t.strikes > 0 && len(c.trials[checker]) > 0, c.triesSuspect(checker):
		return false, "it is tried by itself, because a checker went away as it got it"
	}
	t.checker = checker
	if c.trials[checker] == nil {
		c.trials[checker] = map[Shape]struct{}{}
	}
	c.trials[checker][s] = struct{}{}
	return true, ""
}

// triesSuspect reports whether the checker tries a shape that must be tried by itself.
func (c *Canary) triesSuspect(checker string) bool {
	for s := range c.trials[checker] {
		if c.shapes[s].strikes > 0 {
			return true
		}
	}
	return false
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
		if t.strikes >= maxStrikes {
			t.strikes = 0
		}
		t.checker, t.strikes, t.struck = "", t.strikes+1, now
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
