package hds

import (
	"maps"
	"slices"
)

// Checker is an Envoy that probes. Node, Region and Zone are empty where they are not known.
type Checker struct {
	// ID is the identity that it has proven.
	ID     string
	Node   string
	Region string
	Zone   string
	Can    Capability
}

// AssignmentConfig says how duties are spread. Zero fields mean the defaults.
type AssignmentConfig struct {
	// Checkers is how many probe an endpoint: 3, at most 7.
	Checkers int
	// MaxDuties is how many endpoints one checker has at most.
	MaxDuties int
}

const (
	defaultCheckers = 3
	maxCheckers     = 7
)

// Assignment spreads duties over checkers: by rendezvous hashing, so that little moves when checkers come
// and go; one checker outside the endpoint's zone and the others in it, where there are such; never by the
// endpoint's own node alone; and none with more than 1.25 times the mean. A duty stays where it is until its
// checker goes, has too many, or a newcomer ranks higher. It is not safe for concurrent use.
type Assignment struct {
	k, maxDuties int
	// unbounded lifts the bound of 1.25 times the mean, for a test that ranks alone.
	unbounded bool

	checkers map[string]int32
	fleet    fleet
	posts    []post
	byKey    map[Key]int32
	free     []int32
	count    int

	changed map[int32]bool
}

// post is an endpoint and who probes it.
type post struct {
	duty    Duty
	hash    uint64
	place   place
	needs   skill
	holders []int32
	used    bool
}

// NewAssignment returns an assignment without checkers and duties.
func NewAssignment(cfg AssignmentConfig) *Assignment {
	if cfg.Checkers <= 0 {
		cfg.Checkers = defaultCheckers
	}
	if cfg.MaxDuties <= 0 || cfg.MaxDuties > MaxDuties {
		cfg.MaxDuties = MaxDuties
	}
	return &Assignment{
		k: min(cfg.Checkers, maxCheckers), maxDuties: cfg.MaxDuties,
		checkers: map[string]int32{}, byKey: map[Key]int32{}, changed: map[int32]bool{},
		fleet: fleet{places: newPlaces()},
	}
}

// Join adds checkers, or replaces those of the same identity.
func (a *Assignment) Join(checkers ...Checker) {
	a.forgetPlaces() // a checker says where it is, and may say so anew each time
	var joined []int32
	for _, c := range checkers {
		if at, ok := a.checkers[c.ID]; ok {
			if a.fleet.checkers[at] == c {
				continue
			}
			a.Leave(c.ID)
		}
		at := a.fleet.add(c)
		a.checkers[c.ID] = at
		joined = append(joined, at)
	}
	// Where much is new there is little to keep: going over every endpoint for every newcomer costs more.
	if len(joined) > 4 && len(joined)*4 > len(a.checkers) {
		a.rebuild()
		return
	}
	for _, at := range joined {
		a.offer(at)
	}
	a.Rebalance()
}

// Leave removes checkers and gives their duties to others.
func (a *Assignment) Leave(ids ...string) {
	var orphans []int32
	for _, id := range ids {
		at, ok := a.checkers[id]
		if !ok {
			continue
		}
		for _, p := range slices.Sorted(maps.Keys(a.fleet.duties[at])) {
			a.release(p, at)
			orphans = append(orphans, p)
		}
		delete(a.checkers, id)
		delete(a.changed, at)
		a.fleet.remove(at)
	}
	for _, p := range orphans {
		a.fill(p)
	}
	a.Rebalance()
}

// Put adds duties, or replaces those of the same endpoint. They must have no [Duty.Problem].
func (a *Assignment) Put(duties ...Duty) {
	a.forgetPlaces()
	var open []int32
	for _, d := range duties {
		d = d.Canonical()
		at, ok := a.byKey[d.Key]
		if ok && a.replace(at, d) {
			continue
		}
		if !ok {
			at = a.newPost()
			a.byKey[d.Key] = at
			a.count++
		}
		a.vacate(at)
		a.posts[at] = post{
			duty: d, used: true, hash: hashKey(d.Key), needs: d.Probe.needs(),
			place: a.fleet.places.of(d.Node, d.Region, d.Zone), holders: a.posts[at].holders[:0],
		}
		open = append(open, at)
	}
	// The bound on load is that of all the duties: it must be known before the first is given away.
	for _, at := range open {
		a.fill(at)
	}
	a.Rebalance()
}

// Remove ends duties.
func (a *Assignment) Remove(keys ...Key) {
	for _, k := range keys {
		at, ok := a.byKey[k]
		if !ok {
			continue
		}
		a.vacate(at)
		delete(a.byKey, k)
		a.posts[at] = post{holders: a.posts[at].holders[:0]}
		a.free = append(a.free, at)
		a.count--
	}
	a.Rebalance()
}

// replace changes a duty where those who have it can keep it.
func (a *Assignment) replace(at int32, d Duty) bool {
	old := &a.posts[at]
	if old.duty == d {
		return true
	}
	samePlace := old.duty.Node == d.Node && old.duty.Region == d.Region && old.duty.Zone == d.Zone
	if !samePlace || old.duty.Probe.Protocol != d.Probe.Protocol || old.duty.Probe.TLS != d.Probe.TLS {
		return false
	}
	old.duty = d
	for _, c := range old.holders {
		a.changed[c] = true
	}
	return true
}

// Checkers returns the checkers, by identity.
func (a *Assignment) Checkers() []Checker {
	var all []Checker
	for _, id := range slices.Sorted(maps.Keys(a.checkers)) {
		all = append(all, a.fleet.checkers[a.checkers[id]])
	}
	return all
}

// Changed returns the identities of the checkers whose duties changed since it was last asked.
func (a *Assignment) Changed() []string {
	var ids []string
	for at := range a.changed {
		ids = append(ids, a.fleet.checkers[at].ID)
	}
	clear(a.changed)
	slices.Sort(ids)
	return ids
}

// Duties returns a checker's duties, by endpoint.
func (a *Assignment) Duties(id string) []Duty {
	at, ok := a.checkers[id]
	if !ok {
		return nil
	}
	duties := make([]Duty, 0, len(a.fleet.duties[at]))
	for p := range a.fleet.duties[at] {
		duties = append(duties, a.posts[p].duty)
	}
	slices.SortFunc(duties, func(x, y Duty) int { return x.compare(y.Key) })
	return duties
}

// Holders returns the identities of those who probe the endpoint.
func (a *Assignment) Holders(k Key) []string {
	at, ok := a.byKey[k]
	if !ok {
		return nil
	}
	var ids []string
	for _, c := range a.posts[at].holders {
		ids = append(ids, a.fleet.checkers[c].ID)
	}
	slices.Sort(ids)
	return ids
}

// Len is the number of endpoints.
func (a *Assignment) Len() int { return a.count }

// Short is the number of endpoints that have fewer checkers than there could be: because all others have
// as many duties as they can have, cannot do the probe, or are on the endpoint's own node.
func (a *Assignment) Short() int {
	want, short := min(a.k, len(a.checkers)), 0
	for i := range a.posts {
		if a.posts[i].used && len(a.posts[i].holders) < want {
			short++
		}
	}
	return short
}

// forgetPlaces numbers places anew when most of them are gone.
func (a *Assignment) forgetPlaces() {
	f := &a.fleet
	if len(f.places.nodes)+len(f.places.zones) < 4*(len(a.posts)+len(f.checkers))+1024 {
		return
	}
	f.places = newPlaces()
	for i, c := range f.checkers {
		f.place[i] = f.places.of(c.Node, c.Region, c.Zone)
	}
	for i := range a.posts {
		d := &a.posts[i].duty
		a.posts[i].place = f.places.of(d.Node, d.Region, d.Zone)
	}
}

func (a *Assignment) newPost() int32 {
	if n := len(a.free); n > 0 {
		at := a.free[n-1]
		a.free = a.free[:n-1]
		return at
	}
	a.posts = append(a.posts, post{})
	return int32(len(a.posts) - 1)
}
