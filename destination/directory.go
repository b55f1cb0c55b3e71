package destination

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// bookNeed is the name under which the directory needs its topics.
const bookNeed = "destination-addresses"

// hiddenTime is how long what is hidden from us is waited for: it may be that it is only not confirmed yet.
const hiddenTime = 5 * time.Second

// directory says who has an address, and which subjects to ask again when somebody else has. Its book is open while
// any asks. One goroutine writes it; what takes long is done outside the lock.
type directory struct {
	cfg      Config
	outdated func(*sync.WaitGroup, []*subject)
	wake     chan struct{} // a bell: the first asks, or none does any more

	// Of the goroutine that runs.
	topics  []facts.Topic // that the book is made of
	left    int           // services that it is not made of, because there are too many
	known   int           // how many of the topics, from the first on, are known, or cannot be
	sure    int           // how many of them, from the first on, can be hiding nothing
	seen    int           // how many of them, from the first on, have told what we may see
	since   time.Time     // since when all have, and not all is sure
	until   time.Time     // when that has been waited for long enough; zero when nobody waits for it
	virtual bool          // virtual IPs are followed
	entries []string      // services that have a virtual IP by their entries

	mu      sync.Mutex // guards all below
	asked   map[netip.Addr]map[*subject]struct{}
	waiting map[*subject]struct{} // those that were told to
	book    *book                 // nil until it was opened
	lacks   string                // what is missing before anything can be said
	beyond  string                // why an address that is not found may be somebody's all the same
}

// found is what is known of an address.
type found struct {
	pending  string // why it is not known whose it is
	owners   []string
	instance *facts.Instance
}

func newDirectory(cfg Config, outdated func(*sync.WaitGroup, []*subject)) *directory {
	return &directory{
		cfg: cfg, outdated: outdated, wake: make(chan struct{}, 1),
		asked: map[netip.Addr]map[*subject]struct{}{}, waiting: map[*subject]struct{}{},
	}
}

// follow has a subject made again whenever somebody else has its address.
func (d *directory) follow(s *subject) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ip := s.question.addr.Addr()
	if d.asked[ip] == nil {
		d.asked[ip] = map[*subject]struct{}{}
	}
	d.asked[ip][s] = struct{}{}
	if d.book == nil {
		d.ring()
	}
}

// drop ends that a subject is followed.
func (d *directory) drop(s *subject) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ip := s.question.addr.Addr()
	delete(d.waiting, s)
	if delete(d.asked[ip], s); len(d.asked[ip]) == 0 {
		delete(d.asked, ip)
	}
	if len(d.asked) == 0 {
		d.ring()
	}
}

func (d *directory) ring() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// lookup returns whose the address of a subject is. One that must wait is made again when it need not any more.
func (d *directory) lookup(s *subject) found {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := s.question.addr
	f := found{pending: "the addresses of instances are being looked up"}
	if d.book != nil {
		f = found{pending: d.lacks, owners: d.book.ownersOf(at.Addr()), instance: d.book.instance(at)}
		if f.pending == "" && len(f.owners) == 0 && f.instance == nil {
			f.pending = d.beyond
		}
	}
	if _, follows := d.asked[at.Addr()][s]; follows && f.pending != "" {
		d.waiting[s] = struct{}{}
	}
	return f
}

// run keeps the book until ctx ends.
func (d *directory) run(ctx context.Context, sub *facts.Subscription) {
	defer sub.Close()
	var group sync.WaitGroup
	defer group.Wait()
	for {
		var enough <-chan time.Time
		if !d.until.IsZero() {
			enough = time.After(time.Until(d.until))
		}
		select {
		case <-ctx.Done():
			return
		case <-d.wake:
			d.turn(&group, nil)
		case <-enough:
			d.turn(&group, nil)
		case <-sub.Bell():
			_, changed := sub.Drain()
			d.turn(&group, changed)
		}
	}
}

// turn opens or closes the book, or brings it up to date, and has those made again whom that concerns.
func (d *directory) turn(group *sync.WaitGroup, ids []facts.ID) {
	d.mu.Lock()
	open, wanted := d.book != nil, len(d.asked) > 0
	d.mu.Unlock()
	switch {
	case wanted && !open:
		d.outdated(group, d.open(d.cfg.Store.View()))
	case wanted:
		d.outdated(group, d.update(d.cfg.Store.View(), ids))
	case open:
		d.close()
	}
}

// open makes the book of all instances that are known, and returns who waited for it.
func (d *directory) open(view facts.View) []*subject {
	b, unused := newBook(), map[netip.Addr]struct{}{}
	for _, status := range view.Topics() {
		if d.ours(status.Topic) {
			list, _ := view.Instances(status.Topic)
			b.apply(b.revise(status.Topic, list), unused)
		}
	}
	all, state := view.VirtualIPs(d.cfg.Place.Datacenter)
	b.tell(all, state, unused)
	d.entries = view.VirtualEntries()
	d.cover(view)
	d.advance(view, map[facts.Topic]bool{})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.book = b
	d.lacks, d.beyond = d.judge(view)
	return d.release()
}

func (d *directory) close() {
	d.mu.Lock()
	d.book, d.lacks, d.beyond = nil, "", ""
	d.mu.Unlock()
	d.topics, d.left, d.known, d.sure, d.seen, d.virtual, d.entries = nil, 0, 0, 0, 0, false, nil
	d.since, d.until = time.Time{}, time.Time{}
	d.cfg.Store.Need(bookNeed)
	d.cfg.Metrics.NotSearched(0)
}

// ours are topics that are pages of the book.
func (d *directory) ours(t facts.Topic) bool {
	return t.Kind == facts.TopicHealth && t.Peer == "" && t.Datacenter == d.cfg.Place.Datacenter
}

// cover needs the instances of all services there are now, up to the limit.
func (d *directory) cover(view facts.View) {
	services := view.AllServices(d.cfg.Place.Datacenter)
	left := max(0, len(services)-d.cfg.MaxServices)
	if left > 0 && d.left == 0 {
		d.cfg.Logger.Warn("there are too many services to look up addresses among all: one of the others is taken for nobody's",
			"services", len(services), "limit", d.cfg.MaxServices)
	}
	d.topics, d.left, d.known, d.sure, d.seen = []facts.Topic{facts.Services(d.cfg.Place.Datacenter)}, left, 0, 0, 0
	for _, service := range services[:len(services)-left] {
		d.topics = append(d.topics, facts.Health(d.cfg.Place.Datacenter, service))
	}
	d.cfg.Metrics.NotSearched(left)
	d.need()
}

// need needs what the book is made of. Virtual IPs come last: only when the instances are known it is known which
// services can have any.
func (d *directory) need() {
	topics := slices.Clone(d.topics)
	if d.virtual {
		topics = append(topics, facts.VirtualIPs(d.cfg.Place.Datacenter))
	}
	d.cfg.Store.Need(bookNeed, topics...)
}

// update takes in changed facts, and returns who is concerned.
func (d *directory) update(view facts.View, ids []facts.ID) []*subject {
	told, entries, services := false, false, false
	pages := map[facts.Topic]bool{}
	for _, id := range ids {
		told = told || id.Topic == facts.VirtualIPs(d.cfg.Place.Datacenter)
		entries = entries || id.Topic.Kind == facts.TopicEntries
		services = services || id.Topic == facts.Services(d.cfg.Place.Datacenter)
		if d.ours(id.Topic) {
			pages[id.Topic] = true
		}
	}
	if services {
		d.cover(view)
	}
	if entries {
		d.entries = view.VirtualEntries()
	}
	d.advance(view, pages)
	var revisions []revision
	for topic := range pages {
		list, _ := view.Instances(topic)
		revisions = append(revisions, d.book.revise(topic, list))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	changed := map[netip.Addr]struct{}{}
	for _, r := range revisions {
		d.book.apply(r, changed)
	}
	if told || d.book.told == facts.Unknown {
		all, state := view.VirtualIPs(d.cfg.Place.Datacenter)
		d.book.tell(all, state, changed)
	}
	lacks, beyond := d.judge(view)
	var stale []*subject
	if lacks != d.lacks || beyond != d.beyond {
		d.lacks, d.beyond = lacks, beyond
		stale = d.release()
	}
	for ip := range changed {
		stale = slices.AppendSeq(stale, maps.Keys(d.asked[ip]))
	}
	return stale
}

// advance finds out how far the topics are known. The view may have more than is told yet: what has become known is
// read from it, or an address would be nobody's until that comes.
func (d *directory) advance(view facts.View, pages map[facts.Topic]bool) {
	for ; d.known < len(d.topics) && tried(view, d.topics[d.known]); d.known++ {
		pages[d.topics[d.known]] = true
	}
	for ; d.sure < d.known && complete(view, d.topics[d.sure]); d.sure++ {
		pages[d.topics[d.sure]] = true
	}
	for d.seen = max(d.seen, d.sure); d.seen < d.known && settled(view, d.topics[d.seen]); d.seen++ {
		pages[d.topics[d.seen]] = true
	}
	maps.DeleteFunc(pages, func(t facts.Topic, _ bool) bool { return !d.ours(t) })
}

// release returns who waits, once: who has to go on waiting comes back.
func (d *directory) release() []*subject {
	list := slices.Collect(maps.Keys(d.waiting))
	clear(d.waiting)
	return list
}

// judge says what is missing before anything can be said, and why an address that is not found may be somebody's.
func (d *directory) judge(view facts.View) (lacks, beyond string) {
	d.until = time.Time{}
	if d.known < len(d.topics) {
		return view.Why(facts.ID{Topic: d.topics[d.known]}), ""
	}
	if !d.virtual {
		d.virtual = true
		d.need()
	}
	switch {
	case d.sure == len(d.topics):
		d.since = time.Time{}
		return "", d.untold(view)
	case d.seen < len(d.topics):
		d.since = time.Time{}
		return "", view.Why(facts.ID{Topic: d.topics[d.seen]})
	case d.since.IsZero():
		d.since = time.Now()
	}
	if until := d.since.Add(hiddenTime); time.Now().Before(until) {
		d.until = until
		return "", view.Why(facts.ID{Topic: d.topics[d.sure]})
	}
	return "", d.untold(view)
}

// untold says of which of the services that can have virtual IPs it is not known which they have: those that instances
// tell are known anyhow.
func (d *directory) untold(view facts.View) string {
	switch d.book.told {
	case facts.Unknown:
		return view.Why(facts.ID{Topic: facts.VirtualIPs(d.cfg.Place.Datacenter)})
	case facts.Absent:
		return ""
	case facts.Present, facts.Suspect:
	}
	first := ""
	look := func(name string) {
		if _, told := d.book.virtual.Services[name]; !told && (first == "" || name < first) {
			first = name
		}
	}
	for _, name := range d.entries {
		look(name)
	}
	for name := range d.book.owners {
		look(name)
	}
	switch why := d.book.virtual.Unread[first]; {
	case first == "":
		return ""
	case why != "":
		return fmt.Sprintf("the virtual IPs of %q cannot be read: %s", first, why)
	}
	return fmt.Sprintf("the virtual IPs of %q are not known yet", first)
}

// tried reports whether a topic was read or cannot be: one that cannot does not keep all others waiting.
func tried(view facts.View, t facts.Topic) bool {
	status := view.Topic(t)
	return view.Known(t) || status.Failure != "" || status.Read && t.Name != ""
}

// complete reports whether what a topic does not have is known not to exist.
func complete(view facts.View, t facts.Topic) bool {
	return view.Topic(t).Complete || t.Name != "" && view.Service(t.Datacenter, t.Name) == facts.Absent
}

// settled reports whether a topic has told what the token may see. The rest serves nobody, and who waited for it would
// wait for ever. Of services some must be seen: a token that sees none is more likely a wrong one.
func settled(view facts.View, t facts.Topic) bool {
	return complete(view, t) || view.Topic(t).Failure == "" && tried(view, t)
}
