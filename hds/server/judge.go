package server

import (
	"slices"
	"time"

	"github.com/catenary-mesh/catenary/hds"
)

// The times of checkers that are broken: how long they have no duties, and when they are not yet.
const (
	firstPenance = 5 * time.Second
	mostPenance  = 5 * time.Minute
	// mostWriting is for how long what is being written to a checker excuses it.
	mostWriting = 10 * time.Second
)

// judge looks whether a checker's streams are fit for duty.
func (e *engine) judge(c *checker, now time.Time) {
	for _, s := range slices.Clone(c.streams) {
		if s.lease != nil && now.After(s.lease.expires) {
			e.leave(now, s, hds.Orderly)
			continue
		}
		problem := s.reports.Problem(now)
		if s.reports.Silent(now) && s.speaks.Load() {
			continue // who listens is late
		}
		if !s.reports.Silent(now) && s.writes(now) {
			continue // it cannot do yet as it was told
		}
		switch {
		case problem != "" && s.broken == "":
			s.astray = !s.reports.Silent(now)
			if s.astray && !e.mayBreak(c) {
				continue
			}
			if s.astray && !c.astray() {
				e.astray++
			}
			s.broken = problem
			s.strikes++
			s.mended = now.Add(min(firstPenance<<min(s.strikes-1, 10), mostPenance))
			e.counts.Broken++
			e.log.Warn("a checker is broken: others get its duties", "checker", s.id, "node", s.hello.NodeID, "reason", problem)
			if c.active == s {
				e.retire(now, c, hds.Broken)
			}
			e.offer(s, nil, nil)
		case problem == "" && s.broken != "" && now.After(s.mended):
			s.broken = ""
			e.log.Info("a checker is fit again", "checker", s.id, "node", s.hello.NodeID)
			if c.active == nil {
				e.activate(now, c, s)
			}
		}
	}
}

// writes reports whether what the stream was told last is still being written. Who does not read it in time is to
// blame for that.
func (s *stream) writes(now time.Time) bool {
	return !s.writing.IsZero() && now.Sub(s.writing) < mostWriting
}

// mayBreak reports whether one more checker may lose its duties for what it reports. When many are late to do as
// they were told, it is the machine or the network that is slow: others would be as late, with more to do, until
// nobody is left. An identity counts once, however many connections it spoils.
func (e *engine) mayBreak(c *checker) bool {
	others := e.astray
	if c.astray() {
		others--
	}
	return others == 0 || others*3 < len(e.checkers)
}

// astray reports whether the checker has a stream that is broken for what it reported.
func (c *checker) astray() bool {
	return slices.ContainsFunc(c.streams, func(s *stream) bool { return s.astray && s.broken != "" })
}

// countAstray counts the checkers that are astray: once for all that are judged together.
func (e *engine) countAstray() {
	e.astray = 0
	for _, c := range e.checkers {
		if c.astray() {
			e.astray++
		}
	}
}
