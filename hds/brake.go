package hds

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// The brake's bounds: more than half of a service of at least smallService endpoints, or more than a fifth of
// at least smallFleet in all, that go down within brakeWindow, are more likely a fault of those who look.
const (
	smallService = 4
	smallFleet   = 20
	brakeWindow  = 10 * time.Second
	// agreement is how long the votes must come to the same for a freeze to end by itself.
	agreement = time.Minute
	// splitEndpoints is how many endpoints of a service are down to one zone only when the zone is at fault.
	splitEndpoints = 2
)

// proposal is a verdict that a record is to have.
type proposal struct {
	record *record
	want   Verdict
}

// window is the times of what happened in the last brakeWindow.
type window []time.Time

func (w *window) count(now time.Time) int {
	old, _ := slices.BinarySearchFunc(*w, now.Add(-brakeWindow), time.Time.Compare)
	*w = slices.Delete(*w, 0, old)
	return len(*w)
}

// service is what the brake counts by.
type service struct {
	name    string
	records map[*record]struct{}
	// splits are the records that only one zone finds down.
	splits map[*record]struct{}
	down   window
	freeze *freeze
	// exempt is until when the brake does not hold what has been released.
	exempt time.Time
}

func (s *service) endpoints() int { return len(s.records) }

// freeze is that a service keeps its verdicts.
type freeze struct {
	reason string
	since  time.Time
	// agreed is since when the votes come to the same, and outcome what they come to.
	agreed, looked time.Time
	outcome        uint64
}

// Freeze is a service whose verdicts are kept, for the alarm.
type Freeze struct {
	Service string
	Reason  string
	Since   time.Time
}

func (v *Verdicts) join(r *record, name string) {
	s, ok := v.services[name]
	if !ok {
		s = &service{name: name, records: map[*record]struct{}{}, splits: map[*record]struct{}{}}
		v.services[name] = s
	}
	r.service = s
	s.records[r] = struct{}{}
}

func (v *Verdicts) leave(r *record) {
	delete(r.service.records, r)
	delete(r.service.splits, r)
	if len(r.service.records) == 0 {
		delete(v.services, r.service.name)
		delete(v.frozen, r.service)
	}
}

// decide applies the proposals that the brake lets through.
func (v *Verdicts) decide(wants []proposal, now time.Time) []Change {
	falling := map[*service]int{}
	fallingInAll := 0
	for _, p := range wants {
		if p.want == Down && p.record.service.freeze == nil && !p.record.service.exempted(now) {
			falling[p.record.service]++
			fallingInAll++
		}
	}
	v.brakeServices(falling, now)
	fell := v.down.count(now) + fallingInAll
	if total := len(v.records); total >= smallFleet && fell*5 > total && fallingInAll > 0 {
		v.freezeAll(fmt.Sprintf("more than a fifth of all %d endpoints went down within %v", total, brakeWindow), now)
	}
	v.brakeZones(now)
	var changes []Change
	for _, p := range wants {
		// Neither what is said to be down nor that nobody says anything changes a service that is frozen.
		if p.record.service.freeze != nil && p.want != Up {
			continue
		}
		changes = append(changes, v.apply(p, now))
	}
	return changes
}

func (v *Verdicts) brakeServices(falling map[*service]int, now time.Time) {
	for s, n := range falling {
		fell := s.down.count(now) + n
		if total := s.endpoints(); total >= smallService && fell*2 > total {
			v.stop(s, fmt.Sprintf("more than half of its %d endpoints went down within %v", total, brakeWindow), now)
		}
	}
}

func (v *Verdicts) freezeAll(reason string, now time.Time) {
	for _, s := range v.services {
		if !s.exempted(now) {
			v.stop(s, reason, now)
		}
	}
}

// brakeZones freezes services that are down to the checkers of one zone only.
func (v *Verdicts) brakeZones(now time.Time) {
	for _, s := range v.services {
		if len(s.splits) < splitEndpoints || s.freeze != nil || s.exempted(now) || s.endpoints() < smallService {
			continue
		}
		if z, ok := v.zoneAtFault(s, now); ok {
			v.stop(s, fmt.Sprintf("all who find its endpoints down are in zone %q of region %q, and others reach them", z.Zone, z.Region), now)
		}
	}
}

// zoneAtFault is the one zone whose checkers alone find endpoints of the service down, after all others had
// the time to find them so too.
func (v *Verdicts) zoneAtFault(s *service, now time.Time) (zone Place, ok bool) {
	ripe := 0
	for r := range s.records {
		if r.tally.Verdict != Down {
			continue
		}
		if r.tally.Split != OneZone || (ripe > 0 && r.tally.DownInZone != zone) {
			return Place{}, false
		}
		if !now.Before(r.split.Add(v.splitRipens(r))) {
			ripe++
			zone = r.tally.DownInZone
		}
	}
	return zone, ripe >= splitEndpoints
}

func (s *service) exempted(now time.Time) bool { return now.Before(s.exempt) }

func (v *Verdicts) stop(s *service, reason string, now time.Time) {
	if s.freeze == nil {
		v.frozen[s] = struct{}{}
		s.freeze = &freeze{reason: reason, since: now, agreed: now, looked: now}
		s.freeze.outcome, _ = s.outcome()
	}
}

func (v *Verdicts) apply(p proposal, now time.Time) Change {
	r := p.record
	if p.want == Down && !r.service.exempted(now) {
		r.service.down = append(r.service.down, now)
		v.down = append(v.down, now)
	}
	if r.verdict != Unknown && p.want != Unknown {
		r.flaps.flip(now, p.want)
	}
	r.verdict, r.since = p.want, now
	return Change{r.duty.Key, r.verdict}
}

// lookAgain is how often a frozen service is looked at.
const lookAgain = 250 * time.Millisecond

// thaw ends the freezes whose votes have come to the same for long enough, and applies them.
func (v *Verdicts) thaw(now time.Time) []Change {
	var changes []Change
	for _, s := range slices.SortedFunc(maps.Keys(v.frozen), byName) {
		f := s.freeze
		if now.Sub(f.looked) < lookAgain {
			continue
		}
		f.looked = now
		outcome, agree := s.outcome()
		if !agree || outcome != f.outcome {
			f.agreed, f.outcome = now, outcome
		}
		if now.Sub(f.agreed) >= agreement {
			changes = append(changes, v.release(s, now)...)
		}
	}
	return changes
}

// outcome is what the votes on the service's endpoints come to, and whether they agree: zones do not stand
// against each other. The sum does not depend on an order.
func (s *service) outcome() (sum uint64, agree bool) {
	agree = true
	for r := range s.records {
		agree = agree && r.tally.Split != OneZone
		sum += score(hashKey(r.duty.Key), uint64(r.tally.Verdict)+1)
	}
	return sum, agree
}

// Release ends the freeze of a service, as an operator may: what its votes come to is applied. It reports
// whether there was one.
func (v *Verdicts) Release(now time.Time, service string) ([]Change, bool) {
	s, ok := v.services[service]
	if !ok || s.freeze == nil {
		return nil, false
	}
	return v.release(s, now), true
}

func (v *Verdicts) release(s *service, now time.Time) []Change {
	s.freeze, s.exempt = nil, now.Add(brakeWindow)
	delete(v.frozen, s)
	var changes []Change
	records := slices.SortedFunc(maps.Keys(s.records), func(a, b *record) int { return a.duty.compare(b.duty.Key) })
	for _, r := range records {
		if want, ok := v.weigh(r, now); ok {
			changes = append(changes, v.apply(proposal{r, want}, now))
		}
	}
	return changes
}

func byName(a, b *service) int { return strings.Compare(a.name, b.name) }

// Freeze returns the freeze of a service, if there is one.
func (v *Verdicts) Freeze(service string) (Freeze, bool) {
	s, ok := v.services[service]
	if !ok || s.freeze == nil {
		return Freeze{}, false
	}
	return Freeze{s.name, s.freeze.reason, s.freeze.since}, true
}

// Freezes returns the services whose verdicts are kept, by name.
func (v *Verdicts) Freezes() []Freeze {
	var all []Freeze
	for _, s := range slices.SortedFunc(maps.Keys(v.frozen), byName) {
		all = append(all, Freeze{s.name, s.freeze.reason, s.freeze.since})
	}
	return all
}
