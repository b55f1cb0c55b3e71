package server

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/catenary-mesh/catenary/hds"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// The times of the engine.
const (
	// tick is how often it looks for checkers that are silent and for verdicts that are due.
	tick = 100 * time.Millisecond
	// settleAfter is how long votes that come together are gathered.
	settleAfter = 10 * time.Millisecond
	// followEvery is how often it looks at the latest at what is needed.
	followEvery = 50 * time.Millisecond
	// rebalanceEvery is how often checkers with too much are relieved.
	rebalanceEvery = 10 * time.Second
)

// engine is all state of health discovery. It is for one goroutine.
type engine struct {
	cfg Config
	log hclog.Logger

	assignment *hds.Assignment
	verdicts   *hds.Verdicts
	canary     *hds.Canary

	checkers map[string]*checker
	leases   map[holder][]*stream
	leased   int
	services map[string]*service
	sets     map[string]*service // by the name of the endpoint set
	sub      *facts.Subscription
	stale    map[string]bool // services to look at again: wholly, or at what changed

	// due are the checkers whose duties may have changed, waiting those that are not given all that they have, and
	// joining those that are to have some.
	due     map[string]struct{}
	waiting map[string]struct{}
	joining map[string]struct{}
	// firstCame and lastCame are when the first and the last of those came.
	firstCame, lastCame time.Time

	flushed  time.Time
	round    []string      // who of the due are still to be told
	toll     time.Duration // what that took so far, and sliced the last part of it
	sliced   time.Duration
	settleAt time.Time // zero when no votes came
	relieved time.Time
	started  time.Time
	awaiting bool
	frozen   map[string]bool
	counts   counts
	astray   int // checkers that are broken for what they report
	lastTick time.Time
	// strayed means that others are needed than when the engine last followed.
	strayed  bool
	followed time.Time
}

func newEngine(cfg Config) *engine {
	return &engine{
		cfg: cfg, log: cfg.Logger,
		assignment: hds.NewAssignment(hds.AssignmentConfig{}),
		verdicts:   hds.NewVerdicts(hds.VerdictsConfig{ReportInterval: cfg.ReportInterval, Hold: cfg.Hold}),
		canary:     hds.NewCanary(cfg.ReportInterval),
		checkers:   map[string]*checker{}, leases: map[holder][]*stream{}, services: map[string]*service{}, sets: map[string]*service{},
		stale: map[string]bool{}, frozen: map[string]bool{},
		due: map[string]struct{}{}, waiting: map[string]struct{}{}, joining: map[string]struct{}{},
	}
}

// run is the engine's goroutine.
func (e *engine) run(ctx context.Context, mail <-chan func(*engine, time.Time)) {
	e.sub = e.cfg.Store.Subscribe()
	defer e.sub.Close()
	needs, end := e.cfg.Store.NeedsBell()
	defer end()
	defer e.cfg.Store.Need(needer)
	e.begin(time.Now())
	for {
		timer := time.NewTimer(time.Until(e.next()))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case f := <-mail:
			f(e, time.Now())
		case <-e.sub.Bell():
			e.changed(time.Now())
		case <-needs:
			e.strayed = true
		case <-timer.C:
		}
		timer.Stop()
		e.turn(time.Now())
	}
}

func (e *engine) begin(now time.Time) {
	e.started, e.relieved, e.awaiting = now, now, true
	e.lastTick = now
	e.follow(now)
}

// next is when there is something to do without anybody asking.
func (e *engine) next() time.Time {
	at := e.lastTick.Add(tick)
	if !e.settleAt.IsZero() && e.settleAt.Before(at) {
		at = e.settleAt
	}
	if follow := e.followed.Add(followEvery); e.strayed && follow.Before(at) {
		at = follow
	}
	if flush := e.flushAt(); !flush.IsZero() && flush.Before(at) {
		at = flush
	}
	return at
}

// turn does what is due.
func (e *engine) turn(now time.Time) {
	if e.strayed && now.Sub(e.followed) >= followEvery {
		e.follow(now)
	}
	if late := now.Sub(e.lastTick) - tick; late >= 0 {
		e.lastTick = now
		e.excuse(late)
		e.inspect(now)
		e.settleAt = now
	}
	if !e.settleAt.IsZero() && !now.Before(e.settleAt) {
		e.settleAt = time.Time{}
		e.settle(now)
	}
	if at := e.flushAt(); !at.IsZero() && !now.Before(at) {
		e.flush(now)
	}
}

// excuse takes the time that the engine is late from the silence of checkers: what they have said meanwhile may
// wait to be heard.
func (e *engine) excuse(late time.Duration) {
	if late < tick/2 {
		return
	}
	for _, c := range e.checkers {
		for _, s := range c.streams {
			s.reports.Excuse(late)
		}
	}
}

// inspect looks for what time alone has changed.
func (e *engine) inspect(now time.Time) {
	e.countAstray()
	for _, c := range e.checkers {
		e.judge(c, now)
	}
	if now.Sub(e.relieved) >= rebalanceEvery {
		e.relieved = now
		e.assignment.Rebalance()
		e.moved()
		e.retry()
	}
	if e.canary.Due(now) {
		e.retry()
	}
	if e.awaiting {
		e.await(now)
		e.undefer(now)
	}
}

// moved notes the checkers whose duties changed.
func (e *engine) moved() {
	for _, id := range e.assignment.Changed() {
		e.due[id] = struct{}{}
	}
}

// settle makes verdicts of the votes, and facts of the verdicts.
func (e *engine) settle(now time.Time) {
	touched := map[*service][]hds.Key{}
	for _, c := range e.verdicts.Settle(now) {
		if s, ok := e.sets[c.Set]; ok {
			touched[s] = append(touched[s], c.Key)
			e.counts.Changes++
			e.log.Debug("a verdict changed", "service", s.name, "address", c.Address, "port", c.Port, "verdict", c.Verdict.String())
		}
	}
	for s, keys := range touched {
		e.publish(s, keys)
	}
	e.alarm()
}

// alarm logs freezes as they come and go.
func (e *engine) alarm() {
	freezes := e.verdicts.Freezes()
	now := make(map[string]bool, len(freezes))
	for _, f := range freezes {
		now[f.Service] = true
		if !e.frozen[f.Service] {
			e.counts.Freezes++
			e.log.Error("the verdicts of a service are frozen: what it had before stays; catenary health --release ends it",
				"service", f.Service, "reason", f.Reason)
		}
	}
	for name := range e.frozen {
		if !now[name] {
			e.log.Info("the verdicts of a service are no longer frozen", "service", name)
		}
	}
	e.frozen = now
}
