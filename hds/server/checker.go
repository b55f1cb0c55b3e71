package server

import (
	"bytes"
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/catenary-mesh/catenary/hds"
	"github.com/catenary-mesh/catenary/snapshot"
)

// checker is an identity that probes and has one vote, however many streams it has. Of these one works, and
// the others stand by with nothing to do.
type checker struct {
	id      string
	streams []*stream // oldest first
	active  *stream   // nil when none is fit
}

// stream is a checker's connection, or the lease of one that fetches. All of it but what is above the line
// is the engine's.
type stream struct {
	id      string
	address string
	hello   hds.Hello
	client  snapshot.Client
	v2      bool
	since   time.Time
	bell    chan struct{}
	speaks  atomic.Bool // a report waits for the engine; it is set outside of it

	reports *hds.Reports
	// told are the duties of what was sent last, whose bytes are sent. Offered is what is to be sent, nil for
	// nothing.
	told    []hds.Duty
	sent    []byte
	offered *offer
	// interval is how often it was told to report.
	interval time.Duration
	heard    uint64
	writing  time.Time // since when it is written what it was told; zero when nothing is
	// broken says why it has no duties; strikes count how often that was so.
	broken  string
	astray  bool      // it is for what it reported
	mended  time.Time // when a broken one may have duties again
	strikes int
	lease   *lease // of one that fetches
}

// offer is a specifier with what it is made of.
type offer struct {
	spec    hds.Specifier
	message *healthv3.HealthCheckSpecifier
	bytes   []byte
	duties  []hds.Duty
	waiting []hds.Duty
}

// maxStreams is how many connections one identity has at most: those that stand by cost memory.
const maxStreams = 1000

// join takes in a stream.
func (e *engine) join(now time.Time, s *stream) error {
	if c := e.checkers[s.id]; c != nil && len(c.streams) >= maxStreams {
		return status.Errorf(codes.ResourceExhausted, "%d checkers of this identity are connected, of which one works: give each an identity of its own", maxStreams)
	}
	s.reports, s.since = hds.NewReports(now, e.cfg.ReportInterval), now
	c := e.checkers[s.id]
	if c == nil {
		c = &checker{id: s.id}
		e.checkers[s.id] = c
	}
	c.streams = append(c.streams, s)
	if c.active == nil {
		e.activate(now, c, s) // and it is told soon: to be told nothing first would end what it probes meanwhile
	} else {
		e.offer(s, nil, nil)
	}
	e.log.Info("a checker connected", "checker", s.id, "node", s.hello.NodeID, "address", s.address, "version", s.hello.Version, "standing_by", c.active != s)
	return nil
}

// activate gives a checker's duties to one of its streams.
func (e *engine) activate(now time.Time, c *checker, s *stream) {
	c.active = s
	s.reports.Forget() // the votes that were made of it are gone
	if len(e.joining) == 0 {
		e.firstCame = now
	}
	e.joining[c.id], e.lastCame = struct{}{}, now
}

func (c *checker) describe() hds.Checker {
	s := c.active
	return hds.Checker{ID: c.id, Node: s.client.Node, Region: s.hello.Region, Zone: s.hello.Zone, Can: s.hello.Can}
}

// retire takes the duties from a checker's working stream, and gives them to another of its streams, or to
// others.
func (e *engine) retire(now time.Time, c *checker, how hds.Departure) {
	if e.canary.Trying(c.id) {
		e.log.Warn("a checker went away, or was found to be broken, as it tried a new kind of probe: another tries it", "checker", c.id, "node", c.active.hello.NodeID)
	}
	if e.canary.Gone(now, c.id, how) {
		e.retry()
	}
	e.verdicts.Drop(c.id)
	c.active = nil
	for _, s := range c.streams {
		if s.broken == "" {
			e.activate(now, c, s)
			return
		}
	}
	e.assignment.Leave(c.id)
	e.moved()
	delete(e.joining, c.id)
	delete(e.due, c.id)
	delete(e.waiting, c.id)
}

// leave takes out a stream.
func (e *engine) leave(now time.Time, s *stream, how hds.Departure) {
	c := e.checkers[s.id]
	if c == nil {
		return
	}
	c.streams = slices.DeleteFunc(c.streams, func(x *stream) bool { return x == s })
	if c.active == s {
		e.retire(now, c, how)
	}
	if len(c.streams) == 0 {
		delete(e.checkers, s.id)
	}
	e.unlease(s)
	e.log.Info("a checker disconnected", "checker", s.id, "node", s.hello.NodeID, "address", s.address)
}

// tell composes what a checker is to do now.
func (e *engine) tell(now time.Time, c *checker) {
	s := c.active
	var admitted, waiting []hds.Duty
	for _, d := range e.assignment.Duties(c.id) {
		if ok, _ := e.canary.Admit(now, hds.ShapeOf(d, s.hello.Version), c.id); ok {
			admitted = append(admitted, d)
		} else {
			waiting = append(waiting, d)
		}
	}
	if delete(e.waiting, c.id); len(waiting) > 0 {
		e.waiting[c.id] = struct{}{}
	}
	if e.defers(now, s, len(waiting)) {
		admitted, waiting = nil, append(waiting, admitted...)
	} else {
		e.offer(s, admitted, waiting)
		if s.offered == nil {
			e.sent(now, s) // before, as it is
		}
	}
	// What it has not been sent yet says nothing.
	told := map[hds.Key]hds.Duty{}
	for _, d := range s.told {
		told[d.Key] = d
	}
	var has []hds.Duty
	for _, d := range admitted {
		if t := told[d.Key]; t.Probe == d.Probe && t.Region == d.Region && t.Zone == d.Zone {
			has = append(has, d)
		} else {
			waiting = append(waiting, d)
		}
	}
	if e.verdicts.Assign(now, c.describe(), has, waiting) {
		s.reports.Forget()
	}
	e.settleSoon(now)
}

// defers reports whether a stream is told nothing yet. At a start a checker may still probe what it did before, and
// what it is told without the shapes that others try first would end that. The others take one report.
func (e *engine) defers(now time.Time, s *stream, waiting int) bool {
	return e.awaiting && s.sent == nil && s.lease == nil && waiting > 0 && e.young(now, s) && !e.canary.Trying(s.id)
}

func (e *engine) young(now time.Time, s *stream) bool {
	return now.Sub(s.since) < e.trialInterval()+deferSlack
}

// undefer has those told something who have been told nothing for long enough.
func (e *engine) undefer(now time.Time) {
	for id := range e.waiting {
		if c := e.checkers[id]; c != nil && c.active != nil && c.active.sent == nil && !e.young(now, c.active) {
			e.due[id] = struct{}{}
		}
	}
}

const (
	deferSlack = 750 * time.Millisecond
	// mostTrial is how often a checker reports at least while it tries something: others wait for that.
	mostTrial = 250 * time.Millisecond
)

func (e *engine) trialInterval() time.Duration { return min(e.cfg.ReportInterval, mostTrial) }

// interval is how often a stream is to report.
func (e *engine) interval(s *stream) time.Duration {
	if c := e.checkers[s.id]; c != nil && c.active == s && e.canary.Trying(s.id) {
		return e.trialInterval()
	}
	return e.cfg.ReportInterval
}

// offer puts a specifier where the stream's writer finds it, unless it is what was sent last.
func (e *engine) offer(s *stream, duties, waiting []hds.Duty) {
	spec, refused := hds.Compose(s.hello.Can, e.interval(s), duties)
	e.counts.Refused += uint64(len(refused))
	message, err := spec.Encode()
	if err == nil {
		var raw []byte
		if raw, err = (proto.MarshalOptions{Deterministic: true}).Marshal(message); err == nil {
			if s.sent != nil && bytes.Equal(raw, s.sent) {
				s.offered = nil
				return
			}
			s.offered = &offer{spec: spec, message: message, bytes: raw, duties: without(duties, refused), waiting: waiting}
			s.ring()
			return
		}
	}
	e.log.Error("a specifier cannot be encoded; the checker keeps what it has", "checker", s.id, "reason", err)
}

// without returns the duties that were not refused.
func without(duties []hds.Duty, refused []hds.Refusal) []hds.Duty {
	if len(refused) == 0 {
		return duties
	}
	out := map[hds.Key]bool{}
	for _, r := range refused {
		out[r.Key] = true
	}
	return slices.DeleteFunc(slices.Clone(duties), func(d hds.Duty) bool { return out[d.Key] })
}

func (s *stream) ring() {
	select {
	case s.bell <- struct{}{}:
	default:
	}
}

// take returns what is to be sent to a stream now, or nil, and counts it as sent: a report can follow at once.
func (e *engine) take(now time.Time, s *stream) *healthv3.HealthCheckSpecifier {
	o := s.offered
	if o == nil {
		return nil
	}
	s.offered, s.sent, s.told = nil, o.bytes, o.duties
	s.reports.Told(now, o.spec)
	e.counts.Specifiers++
	anew := s.interval != o.spec.Interval
	s.interval = o.spec.Interval
	if c := e.checkers[s.id]; c != nil && c.active == s {
		e.verdicts.Pace(s.id, s.interval, anew)
		e.sent(now, s)
		if e.verdicts.Assign(now, c.describe(), o.duties, o.waiting) {
			s.reports.Forget()
		}
		e.settleSoon(now)
	}
	return o.message
}

// write takes what is to be written to a stream now.
func (e *engine) write(now time.Time, s *stream) *healthv3.HealthCheckSpecifier {
	m := e.take(now, s)
	if m != nil {
		s.writing = now
	}
	return m
}

// handed notes that it is written.
func (s *stream) handed(now time.Time) {
	s.writing = time.Time{}
	s.reports.Handed(now)
}

// sent notes what a stream tries of what it was told.
func (e *engine) sent(now time.Time, s *stream) {
	if !e.canary.Trying(s.id) {
		return
	}
	shapes := map[hds.Shape]bool{}
	for _, d := range s.told {
		shapes[hds.ShapeOf(d, s.hello.Version)] = true
	}
	e.canary.Sent(now, s.id, shapes)
}

// hear takes in a report.
func (e *engine) hear(now time.Time, s *stream, raw []byte) error {
	e.counts.Reports++
	s.speaks.Store(false)
	last := cmp.Or(s.reports.Heard(), s.since)
	seen, err := s.reports.Receive(now, raw)
	if err != nil {
		return err
	}
	e.counts.lag(now.Sub(last))
	s.heard++
	c := e.checkers[s.id]
	if c == nil || c.active != s {
		return nil
	}
	e.counts.Observations += uint64(len(seen))
	e.verdicts.Report(now, s.id, seen)
	if s.reports.Matched() && e.canary.Prove(s.id) {
		e.retry()
		e.due[s.id] = struct{}{} // it need not report as often any more
	}
	e.settleSoon(now)
	return nil
}

func (e *engine) settleSoon(now time.Time) {
	if e.settleAt.IsZero() {
		e.settleAt = now.Add(settleAfter)
	}
}
