package hds

import (
	"errors"
	"fmt"
	"hash/maphash"
	"net/netip"
	"time"
)

// Observation is what a report says of an endpoint that it did not say before.
type Observation struct {
	Key
	Status Status
	// Code is the HTTP status that the endpoint answered with, or 0.
	Code uint16
}

// Reports follows the reports of one checker against what it was told. It is not safe for concurrent use.
type Reports struct {
	interval time.Duration
	seed     maphash.Seed

	// index leads from a cluster and an address to the endpoint's place in seats.
	index map[string]map[Address]int32
	flat  map[Address][]int32
	seats []seat
	round uint32
	most  int // seats that there have been

	told      time.Time
	last      uint64
	hasLast   bool
	heard     time.Time
	excused   time.Duration // since heard
	late      time.Duration // since told
	matched   time.Time
	mismatch  string
	misses    int // reports in a row that do not match, since told
	everHeard bool
	everTold  bool
}

// seat is an endpoint of the duty, and what the last report said of it.
type seat struct {
	key     Key
	cluster string
	place   Place
	status  Status
	code    uint16
	round   uint32
	next    Status
	nextTo  uint16
}

// NewReports follows a checker that connected now and reports at the interval.
func NewReports(now time.Time, interval time.Duration) *Reports {
	return &Reports{interval: ReportInterval(interval), seed: maphash.MakeSeed(), told: now, heard: now}
}

// Told notes that the checker was sent the specifier, which must be sent also when it is empty: without
// one a checker does not report, and cannot be told from one that is silent.
func (r *Reports) Told(now time.Time, s Specifier) {
	before, old := r.index, r.seats
	r.index, r.flat, r.seats = map[string]map[Address]int32{}, map[Address][]int32{}, make([]seat, 0, s.Len())
	for _, c := range s.Clusters {
		byAddress := map[Address]int32{}
		for _, l := range c.Localities {
			for _, a := range l.Endpoints {
				at := int32(len(r.seats))
				st := seat{key: Key{c.Set, a.IP, a.Port}, cluster: c.Name, place: Place{l.Region, l.Zone}}
				// An Envoy begins anew with what comes to another place.
				if i, ok := before[c.Name][a]; ok && old[i].place == st.place {
					st.status, st.code = old[i].status, old[i].code
				}
				r.seats = append(r.seats, st)
				byAddress[a] = at
				r.flat[a] = append(r.flat[a], at)
			}
		}
		r.index[c.Name] = byAddress
	}
	if !r.everTold {
		r.heard, r.everTold = now, true // it had nothing to report on before
	}
	r.most = max(r.most, len(r.seats))
	// The same bytes mean something else now.
	r.hasLast, r.round = false, 0
	r.Handed(now)
}

// Handed notes that what the checker was told is on its way to it: only what comes from now on can be about that.
func (r *Reports) Handed(now time.Time) { r.told, r.late, r.misses = now, 0, 0 }

// Forget has the next report be news from end to end.
func (r *Reports) Forget() {
	for i := range r.seats {
		r.seats[i].status, r.seats[i].code = NotReported, 0
	}
	r.hasLast = false
}

// Receive takes the bytes of a message that is not the first of its stream, and returns what is new. Bytes
// equal to the last are not looked at again: it is then that nothing is new. It keeps nothing of raw.
func (r *Reports) Receive(now time.Time, raw []byte) ([]Observation, error) {
	sum := maphash.Bytes(r.seed, raw)
	if r.hasLast && sum == r.last {
		r.heard, r.excused = now, 0
		r.judge(now)
		return nil, nil
	}
	if most := leastLimit + r.most*limitEach; len(raw) > most {
		return nil, fmt.Errorf("%w: it has %d bytes, and on %d endpoints %d do", errReport, len(raw), r.most, most)
	}
	hello, report, err := split(raw)
	switch {
	case err != nil:
		return nil, err
	case hello != nil:
		return nil, errTwice
	}
	if err := r.read(report); err != nil {
		r.hasLast = false
		return nil, err
	}
	r.last, r.hasLast, r.heard, r.excused, r.everHeard = sum, true, now, 0, true
	changed := r.compare()
	r.judge(now)
	return changed, nil
}

func (r *Reports) judge(now time.Time) {
	if r.mismatch != "" {
		r.misses++
		return
	}
	r.matched, r.misses = now, 0
}

// Bounds of a report: Envoy takes some 300 bytes for an endpoint, and the names of clusters beside.
const (
	leastLimit = 64 << 10
	limitEach  = 2 << 10
)

// errTwice ends a checker that would be another in the middle of its stream.
var errTwice = errors.New("a checker says who it is once, in the first message of its stream")

// read notes at every seat what the report says of it.
func (r *Reports) read(report []byte) error {
	r.round++
	r.mismatch = ""
	for i := range r.seats {
		r.seats[i].next = NotReported
	}
	grouped, err := hasClusters(report)
	if err != nil {
		return err
	}
	if grouped {
		return eachGrouped(report, r.note)
	}
	return eachEndpoint(report, fieldFlat, r.noteFlat)
}

func (r *Reports) note(got reported) error {
	byAddress := r.index[string(got.cluster)]
	at, ok := byAddress[Address{string(got.address), got.port}]
	if !ok {
		at, ok = byAddress[normal(got)]
	}
	if !ok {
		r.stranger(got)
		return nil
	}
	r.mark(at, got)
	return nil
}

// noteFlat takes an endpoint without its cluster. Where several clusters have it, their reports cannot be
// told apart, and count only if they are alike.
func (r *Reports) noteFlat(got reported) error {
	seats, ok := r.flat[Address{string(got.address), got.port}]
	if !ok {
		seats, ok = r.flat[normal(got)]
	}
	if !ok {
		r.stranger(got)
		return nil
	}
	for _, at := range seats {
		if s := &r.seats[at]; len(seats) > 1 && s.round == r.round && s.next != got.status {
			got.status, got.code = StatusOther, 0
		}
	}
	for _, at := range seats {
		r.mark(at, got)
	}
	return nil
}

func (r *Reports) mark(at int32, got reported) {
	s := &r.seats[at]
	s.next, s.nextTo, s.round = got.status, got.code, r.round
}

func (r *Reports) stranger(got reported) {
	if r.mismatch == "" {
		r.mismatch = fmt.Sprintf("it reports %.64q:%d in %.128q, which it was not told to probe", got.address, got.port, got.cluster)
	}
}

// normal is the address in the form that [Duty.Canonical] gives it.
func normal(got reported) Address {
	addr, err := netip.ParseAddr(string(got.address[:min(len(got.address), maxAddress)]))
	if err != nil {
		return Address{}
	}
	return Address{addr.Unmap().String(), got.port}
}

const maxAddress = 64

// compare returns what is new since the report before.
func (r *Reports) compare() []Observation {
	var changed []Observation
	for i := range r.seats {
		s := &r.seats[i]
		if s.round != r.round {
			s.next, s.nextTo = NotReported, 0
			if r.mismatch == "" {
				r.mismatch = fmt.Sprintf("it does not report %s:%d of %s, which it was told to probe", s.key.Address, s.key.Port, s.cluster)
			}
		}
		if s.next != s.status || s.nextTo != s.code {
			s.status, s.code = s.next, s.nextTo
			changed = append(changed, Observation{s.key, s.status, s.code})
		}
	}
	return changed
}

// Problem says what is wrong with the checker, so that its duties are better given to others: it is silent,
// or reports something else than it was told. It is empty for one that is fine.
func (r *Reports) Problem(now time.Time) string {
	if r.Silent(now) {
		return fmt.Sprintf("it has not reported for %v", now.Sub(r.heard).Round(time.Millisecond))
	}
	if r.astray() {
		return r.mismatch
	}
	return ""
}

// astray reports whether the checker goes on with something else than it was told. Reports that were on their way as
// the duty changed are about the old one, and they may come late, and several at once: it is the time until a report
// came that counts, and not that since then.
func (r *Reports) astray() bool {
	return r.misses >= leastMisses && r.heard.Sub(r.told)-r.late > r.grace() && r.heard.Sub(r.matched) > r.grace()
}

// leastMisses is how many reports in a row are about something else: one may have been held up.
const leastMisses = 2

// Silent reports whether the checker has said nothing for too long, since it was told of anything.
func (r *Reports) Silent(now time.Time) bool {
	return r.everTold && now.Sub(r.heard)-r.excused > Patience(r.interval)
}

// Excuse has so much of the time not count as silence, nor as time to do as told: it was who listens that was late.
func (r *Reports) Excuse(d time.Duration) {
	r.excused += d
	r.late += d
}

func (r *Reports) grace() time.Duration { return max(2*r.interval, time.Second) }

// Matched reports whether the last report is about what the checker was told last.
func (r *Reports) Matched() bool { return r.hasLast && r.mismatch == "" }

// Heard is when the last report came; zero if none has.
func (r *Reports) Heard() time.Time {
	if !r.everHeard {
		return time.Time{}
	}
	return r.heard
}

// Patience is how long a checker may be silent, and how long its votes count.
func Patience(interval time.Duration) time.Duration { return max(3*interval, 2*time.Second) }
