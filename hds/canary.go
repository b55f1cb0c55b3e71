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

// Departure is how a checker came to have no duties.
type Departure uint8

// The departures. Left is a connection that broke, as that of an Envoy that ends; Orderly one that either side
// ended as it should, which shows that the checker lived; Broken a checker that is silent, or reports something
// else than it was told.
const (
	Left Departure = iota
	Orderly
	Broken
)

// Canary lets new shapes of duty out to one checker each, and to the others once that one has reported on
// them. A shape that its checker may have ended of, or never reported on, is tried by another, beside few other
// shapes and then by itself; after three different identities it is given to nobody for a while. One identity
// alone keeps a shape from itself only. It is not safe for concurrent use.
type Canary struct {
	// window is how long after it was sent a shape can end an Envoy: those that are known to do it do so as they
	// are read or at the first report, and the rest is for a busy machine to notice it.
	window time.Duration
	// patience is how long a trial may take before another checker has its turn.
	patience time.Duration

	shapes map[Shape]*trial
	// tries are the shapes that a checker tries.
	tries map[string]*tries
	// bystander is when a checker left last that tried nothing, and late the strikes of about that time.
	bystander time.Time
	late      []strike
	// pauses are when something ends that keeps somebody from a shape, in seconds since the epoch.
	pauses map[int64]struct{}
	epoch  time.Time
}

// trial is what is known of a shape.
type trial struct {
	proven bool
	// checker tries it since a time, and was sent it; zero while it has not been.
	checker     string
	since, sent time.Time
	// marks are on the identities that have tried it in vain.
	marks map[string]mark
	// excused counts departures that looked like those of others.
	excused int
}

// mark is that an identity has tried a shape in vain. It is not given it until a time, and its strikes count against
// the shape until another.
type mark struct {
	strikes        int
	until, against time.Time
}

type tries struct {
	shapes map[Shape]struct{}
	// most is how many there may be.
	most int
}

type strike struct {
	trial   *trial
	checker string
	at      time.Time
}

const (
	maxStrikes = 3
	// penance is for how long a strike counts, and shortPenance that of a checker that was found to be broken: it
	// lives, has no duties for longer each time, and may only have been slow.
	penance      = 10 * time.Minute
	shortPenance = 10 * time.Second
	// slack is what the window has beyond the interval of reports.
	slack = 2 * time.Second
	// together is within what departures have one cause, such as a machine or a line that fails.
	together = time.Second
	// maxExcused bounds how often a shape is believed to have had no part in its checker's end: in a fleet that
	// is being restarted there is always someone else who leaves.
	maxExcused   = 3
	maxMarks     = 16
	maxShapes    = 65536
	forgetShapes = maxShapes / 2
)

// NewCanary returns a canary that knows no shape, for checkers that report at the interval.
func NewCanary(interval time.Duration) *Canary {
	interval = ReportInterval(interval)
	return &Canary{
		window: interval + slack, patience: 3*interval + 5*time.Second,
		shapes: map[Shape]*trial{}, tries: map[string]*tries{}, pauses: map[int64]struct{}{},
	}
}

// Admit reports whether the checker may be given the shape now, and why not. The first who asks for a new
// shape tries it.
func (c *Canary) Admit(now time.Time, s Shape, checker string) (ok bool, why string) {
	t, known := c.shapes[s]
	if !known {
		c.forget(now)
		t = &trial{}
		c.shapes[s] = t
	}
	if t.checker != "" && t.checker != checker && now.Sub(t.since) > c.patience {
		c.end(now, s, 0)
	}
	m := t.marks[checker]
	switch {
	case t.proven || t.checker == checker:
		return true, ""
	case t.checker != "":
		return false, "another checker tries it first"
	case now.Before(m.until):
		return false, fmt.Sprintf("it has tried this %d times in vain, and others come first", max(m.strikes, 1))
	case t.strikers(now) >= maxStrikes:
		return false, fmt.Sprintf("%d checkers in a row went away, or did not do it, as they got it: nobody is given it for a while", maxStrikes)
	}
	return c.try(now, s, checker, atATime(max(m.strikes, t.strikers(now))))
}

// try has the checker try one shape more, if there is room: most is how many it may try at a time with this one.
func (c *Canary) try(now time.Time, s Shape, checker string, most int) (ok bool, why string) {
	has := c.tries[checker]
	if has == nil {
		has = &tries{map[Shape]struct{}{}, maxShapes}
		c.tries[checker] = has
	}
	if len(has.shapes) >= min(most, has.most) {
		return false, "few are tried at a time, because a checker went away as it got it"
	}
	has.shapes[s], has.most = struct{}{}, min(most, has.most)
	t := c.shapes[s]
	t.checker, t.since, t.sent = checker, now, time.Time{}
	c.wake(now, now.Add(c.patience))
	return true, ""
}

// atATime is how many shapes a checker tries together, by the strikes of the worst: a normal end of a
// checker puts all that it tried under suspicion, and soon tells them apart from one that ends it.
func atATime(strikes int) int {
	return [...]int{maxShapes, 16, 1, 1}[min(strikes, maxStrikes)]
}

// Trying reports whether the checker tries anything.
func (c *Canary) Trying(checker string) bool {
	has := c.tries[checker]
	return has != nil && len(has.shapes) > 0
}

// Sent says that the checker was sent a specifier with these shapes. What it was to try and is not among them
// is for others to try.
func (c *Canary) Sent(now time.Time, checker string, shapes map[Shape]bool) {
	if !c.Trying(checker) {
		return
	}
	for s := range c.tries[checker].shapes {
		t := c.shapes[s]
		switch {
		case !shapes[s]:
			t.checker = ""
			c.drop(checker, s)
		case t.sent.IsZero():
			t.sent = now
		}
	}
}

// Prove says that the checker reports on all that it was sent, and as it was told. It reports whether that is
// news: others may have the shapes now.
func (c *Canary) Prove(checker string) bool {
	news := false
	if !c.Trying(checker) {
		return news
	}
	for s := range c.tries[checker].shapes {
		if t := c.shapes[s]; !t.sent.IsZero() {
			*t = trial{proven: true}
			c.drop(checker, s)
			news = true
		}
	}
	return news
}

// Gone says that the checker has no duties any more. It reports whether others may try now what it tried, or
// what was kept from them.
func (c *Canary) Gone(now time.Time, checker string, how Departure) bool {
	if !c.Trying(checker) {
		delete(c.tries, checker)
		return how == Left && c.excuse(now)
	}
	for s := range c.tries[checker].shapes {
		c.end(now, s, c.suspicion(now, c.shapes[s], how))
	}
	delete(c.tries, checker)
	return true
}

// suspicion is for how long a trial's end counts against the shape.
func (c *Canary) suspicion(now time.Time, t *trial, how Departure) time.Duration {
	switch {
	case t.sent.IsZero() || how == Orderly:
		return 0
	case how == Broken:
		return shortPenance
	case now.Sub(t.sent) > c.window:
		return 0
	case now.Sub(c.bystander) <= together && t.excused < maxExcused:
		t.excused++
		return 0
	}
	if n := len(c.late); n > 0 && now.Sub(c.late[n-1].at) > together {
		c.late = nil
	}
	c.late = append(c.late, strike{t, t.checker, now})
	return penance
}

// excuse takes back the strikes of those who left together with one who tried nothing.
func (c *Canary) excuse(now time.Time) bool {
	c.bystander = now
	excused := false
	for _, s := range c.late {
		if m := s.trial.marks[s.checker]; m.strikes > 0 && now.Sub(s.at) <= together && s.trial.excused < maxExcused {
			s.trial.excused++
			s.trial.marks[s.checker] = mark{m.strikes - 1, c.pause(now, 0), m.against}
			excused = true
		}
	}
	c.late = nil
	return excused
}

// end ends a trial in vain, which counts against the shape for some time or not at all, and marks who tried.
func (c *Canary) end(now time.Time, s Shape, counts time.Duration) {
	t := c.shapes[s]
	m, known := t.marks[t.checker]
	if counts > 0 {
		m.strikes++
		if against := now.Add(counts); against.After(m.against) {
			m.against = against
		}
		c.wake(now, m.against)
	}
	if m.until = c.pause(now, m.strikes); counts > 0 && m.until.After(m.against) {
		m.until = m.against
	}
	if t.marks == nil {
		t.marks = map[string]mark{}
	}
	if !known && len(t.marks) >= maxMarks {
		t.forgetMark()
	}
	t.marks[t.checker] = m
	c.drop(t.checker, s)
	t.checker = ""
}

// pause returns until when an identity is not given a shape that it has tried in vain: others try it meanwhile.
func (c *Canary) pause(now time.Time, strikes int) time.Time {
	long := [...]time.Duration{time.Second, 2 * time.Second, 30 * time.Second, penance}[min(strikes, maxStrikes)]
	until := now.Add(long)
	c.wake(now, until)
	return until
}

// wake has [Canary.Due] say so at a time.
func (c *Canary) wake(now, at time.Time) {
	if c.epoch.IsZero() {
		c.epoch = now
	}
	c.pauses[int64(at.Sub(c.epoch)/time.Second)+1] = struct{}{}
}

// Due reports whether somebody may be admitted again who was not, because of the time only.
func (c *Canary) Due(now time.Time) bool {
	due := false
	for at := range c.pauses {
		if at <= int64(now.Sub(c.epoch)/time.Second) {
			delete(c.pauses, at)
			due = true
		}
	}
	return due
}

// forgetMark makes room for another mark.
func (t *trial) forgetMark() {
	oldest, found := "", false
	for id, m := range t.marks {
		if !found || m.until.Before(t.marks[oldest].until) {
			oldest, found = id, true
		}
	}
	delete(t.marks, oldest)
}

// strikers is how many identities the shape has ended lately, as it seems.
func (t *trial) strikers(now time.Time) int {
	n := 0
	for _, m := range t.marks {
		if m.strikes > 0 && now.Before(m.against) {
			n++
		}
	}
	return n
}

func (c *Canary) drop(checker string, s Shape) {
	has := c.tries[checker]
	if delete(has.shapes, s); len(has.shapes) == 0 {
		delete(c.tries, checker)
	}
}

// Blocked returns the shapes that nobody is given for a while, in no order.
func (c *Canary) Blocked(now time.Time) []Shape {
	var list []Shape
	for s, t := range c.shapes {
		if t.strikers(now) >= maxStrikes {
			list = append(list, s)
		}
	}
	return list
}

// forget keeps the shapes from growing without bound: what is proven can be proven again. What is under suspicion
// goes last, for whoever makes up shapes must not have it tried again, and what is proven before it.
func (c *Canary) forget(now time.Time) {
	for _, goes := range []func(*trial) bool{
		func(t *trial) bool { return !t.proven && t.strikers(now) == 0 },
		func(t *trial) bool { return t.proven },
		func(*trial) bool { return true },
	} {
		if len(c.shapes) < maxShapes {
			return
		}
		for s, t := range c.shapes {
			if len(c.shapes) <= forgetShapes {
				return
			}
			if t.checker == "" && goes(t) {
				delete(c.shapes, s)
			}
		}
	}
}
