package hds

import (
	"maps"
	"slices"
	"time"
)

// VerdictsConfig is how votes become verdicts. Zero fields mean the defaults.
type VerdictsConfig struct {
	// ReportInterval is how often checkers report.
	ReportInterval time.Duration
	// Hold is how long a verdict stays without a quorum: 30 s.
	Hold time.Duration
}

const defaultHold = 30 * time.Second

// Verdicts holds the votes on every endpoint and what they come to. It is not safe for concurrent use.
type Verdicts struct {
	interval, hold time.Duration

	records  map[Key]*record
	voters   map[string]*voter
	services map[string]*service
	dirty    map[*record]struct{}
	timers   timers
	// down is when endpoints went down lately, and frozen the services that keep their verdicts.
	down   window
	frozen map[*service]struct{}
}

// Change is a verdict that is another than before.
type Change struct {
	Key
	Verdict Verdict
}

// voter is a checker whose votes count.
type voter struct {
	checker Checker
	// interval is how often it reports, clock how long it has done so by its own reports, and anew that it begins to
	// count with what it is told next.
	interval time.Duration
	clock    time.Duration
	anew     bool
	heard    time.Time
	silent   bool
	reports  uint64
	records  []*record
	// awaited are the records to weigh at its next report, also when that is the same as the last.
	awaited map[*record]struct{}
}

// ballot is a voter's last word on a record.
type ballot struct {
	voter *voter
	probe Probe
	place Place
	// told is when the voter got the duty; zero while it waits for it.
	told   time.Time
	status Status
	code   uint16
	since  time.Time
	report uint64
	// seen is the voter's clock when it must have had the duty: at the first report about the record, or one interval
	// before that.
	seen time.Duration
	anew bool
}

// record is one endpoint.
type record struct {
	duty    Duty
	service *service
	ballots []ballot
	tally   Tally

	verdict Verdict
	since   time.Time
	// want is what the votes come to while that is not yet the verdict.
	want      Verdict
	wantSince time.Time
	// lost is when the quorum was lost; split when the votes of one zone stood against another's.
	lost, split time.Time
	flaps       flaps
	due         time.Time
	gone        bool
}

// NewVerdicts returns verdicts about nothing.
func NewVerdicts(cfg VerdictsConfig) *Verdicts {
	if cfg.Hold <= 0 {
		cfg.Hold = defaultHold
	}
	return &Verdicts{
		interval: ReportInterval(cfg.ReportInterval), hold: cfg.Hold,
		records: map[Key]*record{}, voters: map[string]*voter{}, services: map[string]*service{}, dirty: map[*record]struct{}{},
		frozen: map[*service]struct{}{},
	}
}

// Put adds endpoints, or changes how they are probed.
func (v *Verdicts) Put(duties ...Duty) {
	for _, d := range duties {
		d = d.Canonical()
		r, ok := v.records[d.Key]
		if !ok {
			r = &record{}
			v.records[d.Key] = r
		}
		if ok && r.service.name != d.Service {
			v.leave(r)
		}
		r.duty = d
		v.join(r, d.Service)
		v.touch(r)
	}
}

// Remove forgets endpoints.
func (v *Verdicts) Remove(keys ...Key) {
	for _, k := range keys {
		r, ok := v.records[k]
		if !ok {
			continue
		}
		r.gone = true
		v.leave(r)
		delete(v.records, k)
		delete(v.dirty, r)
		for _, b := range r.ballots {
			b.voter.forget(r)
		}
	}
}

// Assign says which duties a checker has: those it was told of, and those that it is still to be told of,
// which say nothing yet but make it one of the endpoint's checkers. Its votes on others count no more. It reports
// whether any vote on what the checker was told of is still to come, also if that has been reported before.
func (v *Verdicts) Assign(now time.Time, c Checker, told, waiting []Duty) (fresh bool) {
	w, ok := v.voters[c.ID]
	if !ok {
		w = &voter{heard: now, interval: v.interval, awaited: map[*record]struct{}{}}
		v.voters[c.ID] = w
	}
	w.checker = c
	before := w.records
	w.records = nil
	has := make(map[*record]struct{}, len(told)+len(waiting))
	for i, d := range slices.Concat(told, waiting) {
		r, ok := v.records[d.Canonical().Key]
		if _, twice := has[r]; !ok || twice {
			continue
		}
		has[r] = struct{}{}
		w.records = append(w.records, r)
		if r.assign(w, d, now, i < len(told)) {
			fresh = fresh || i < len(told)
			v.touch(r)
		}
	}
	for _, r := range before {
		if _, ok := has[r]; !ok {
			r.drop(w)
			v.touch(r)
		}
	}
	w.anew = false
	return fresh
}

// Pace says how often a checker reports from what it is told next, and whether it begins to count anew with that:
// then its first report comes a whole interval later.
func (v *Verdicts) Pace(checker string, interval time.Duration, anew bool) {
	if w, ok := v.voters[checker]; ok {
		w.interval, w.anew = ReportInterval(interval), anew
	}
}

// Drop forgets a checker and its votes.
func (v *Verdicts) Drop(checker string) {
	w, ok := v.voters[checker]
	if !ok {
		return
	}
	delete(v.voters, checker)
	for _, r := range w.records {
		r.drop(w)
		v.touch(r)
	}
}

// Report takes what a checker's report says that is new; with nothing new it says that the rest holds still.
func (v *Verdicts) Report(now time.Time, checker string, seen []Observation) {
	w, ok := v.voters[checker]
	if !ok {
		return
	}
	w.heard = now
	w.reports++
	w.clock += w.interval
	if w.silent {
		w.silent = false
		v.touch(w.records...)
	}
	for r := range w.awaited {
		v.touch(r)
	}
	clear(w.awaited)
	for _, o := range seen {
		r, ok := v.records[o.Key]
		if !ok {
			continue
		}
		if b := r.ballot(w); b != nil && !b.told.IsZero() && (b.status != o.Status || b.code != o.Code) {
			if b.status == NotReported {
				b.seen = w.clock
				if b.anew {
					b.seen -= w.interval
				}
			}
			b.status, b.code, b.since, b.report = o.Status, o.Code, now, w.reports
			v.touch(r)
		}
	}
}

func (v *Verdicts) touch(records ...*record) {
	for _, r := range records {
		if !r.gone {
			v.dirty[r] = struct{}{}
		}
	}
}

// Settle makes verdicts of the votes as they are now, and returns those that are others than before, in
// order. It costs what changed, and not what there is; votes that come together are best settled together.
func (v *Verdicts) Settle(now time.Time) []Change {
	v.fallSilent(now)
	v.touch(v.timers.due(now)...)
	var wants []proposal
	due := slices.SortedFunc(maps.Keys(v.dirty), func(a, b *record) int { return a.duty.compare(b.duty.Key) })
	clear(v.dirty)
	for _, r := range due {
		if want, ok := v.weigh(r, now); ok {
			wants = append(wants, proposal{r, want})
		}
	}
	changes := v.decide(wants, now)
	return append(changes, v.thaw(now)...)
}

// fallSilent takes the votes of those who have not reported for too long.
func (v *Verdicts) fallSilent(now time.Time) {
	for _, w := range v.voters {
		if !w.silent && now.Sub(w.heard) > Patience(v.interval) {
			w.silent = true
			v.touch(w.records...)
		}
	}
}

// Len is the number of endpoints.
func (v *Verdicts) Len() int { return len(v.records) }

// Verdict returns the verdict on an endpoint.
func (v *Verdicts) Verdict(k Key) Verdict {
	if r, ok := v.records[k]; ok {
		return r.verdict
	}
	return Unknown
}

func (w *voter) forget(r *record) {
	w.records = slices.DeleteFunc(w.records, func(x *record) bool { return x == r })
}

func (r *record) ballot(w *voter) *ballot {
	for i := range r.ballots {
		if r.ballots[i].voter == w {
			return &r.ballots[i]
		}
	}
	return nil
}

func (r *record) drop(w *voter) {
	r.ballots = slices.DeleteFunc(r.ballots, func(b ballot) bool { return b.voter == w })
}

// assign gives the voter a ballot, and reports whether it is new or another.
func (r *record) assign(w *voter, d Duty, now time.Time, told bool) bool {
	b := r.ballot(w)
	place := Place{d.Region, d.Zone}
	// In another place, it is another host to an Envoy, which it knows nothing of yet.
	if b != nil && b.probe == d.Probe && b.place == place && b.told.IsZero() != told {
		return false
	}
	fresh := ballot{voter: w, probe: d.Probe, place: place}
	if told {
		fresh.told, fresh.anew = now, w.anew
	}
	if b != nil {
		*b = fresh
	} else {
		r.ballots = append(r.ballots, fresh)
	}
	return true
}
