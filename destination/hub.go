package destination

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// question is what streams ask for. Equal questions have one answer.
type question struct {
	// profile tells questions for a profile from those for endpoints, in which the port means nothing.
	profile bool
	name    Name
	// addr is set instead of the name where a profile is asked for by address.
	addr netip.AddrPort
	// origin is set where the answer itself depends on where the proxy runs: with addr.
	origin Origin
	reader string
}

// subject is a question that somebody asks.
type subject struct {
	question question
	id       string // of its needs
	answer   atomic.Pointer[answer]

	// Guarded by the hub's lock.
	watchers map[*watcher]struct{}
	reads    map[facts.ID]struct{}
	chain    *chain.Chain // the last that compiled
}

// watcher is a stream as its subject knows it.
type watcher struct{ bell chan struct{} }

func newWatcher() *watcher { return &watcher{bell: make(chan struct{}, 1)} }

func (w *watcher) ring() {
	select {
	case w.bell <- struct{}{}:
	default: // it has yet to look, and finds the latest
	}
}

// hub has the answer to every question that is asked, and makes those again whose facts changed.
type hub struct {
	cfg Config

	mu       sync.Mutex // guards all below
	subjects map[question]*subject
	byFact   map[facts.ID]map[*subject]struct{}
	byAddr   map[netip.Addr]map[*subject]struct{}
	book     *book // while there are subjects by address
	covered  []facts.Topic
	pending  string // why the book is not complete; empty when it is
	lastID   uint64
	leftOut  int // routes of all profiles, and those that lost something to them
	weakened int
}

func newHub(cfg Config) *hub {
	return &hub{
		cfg: cfg, subjects: map[question]*subject{},
		byFact: map[facts.ID]map[*subject]struct{}{}, byAddr: map[netip.Addr]map[*subject]struct{}{},
	}
}

// coalesce is how long changes gather after one that went out at once.
const coalesce = 10 * time.Millisecond

// run makes answers again until ctx ends. A lone change goes out at once; what follows closely gathers.
func (h *hub) run(ctx context.Context, sub *facts.Subscription) {
	defer sub.Close()
	for {
		select {
		case <-ctx.Done():
			return
		case <-sub.Bell():
		}
		h.update(sub)
		select {
		case <-ctx.Done():
			return
		case <-time.After(coalesce):
		}
	}
}

// update makes what changed facts touch. The view is taken under the lock, as that of join is: in any other order
// one that joins meanwhile would be given newer facts, and this would take them back.
func (h *hub) update(sub *facts.Subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	view, changed := sub.Drain()
	stale := map[*subject]struct{}{}
	for _, id := range changed {
		for s := range h.byFact[id] {
			stale[s] = struct{}{}
		}
	}
	h.turnPages(view, changed, stale)
	for s := range stale {
		h.remake(s, view)
	}
}

// join returns the subject of a question, with its answer, for a stream that is told from now on.
func (h *hub) join(q question, w *watcher) *subject {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, ok := h.subjects[q]
	if !ok {
		h.lastID++
		s = &subject{question: q, id: "destination#" + strconv.FormatUint(h.lastID, 10), watchers: map[*watcher]struct{}{}}
		h.subjects[q] = s
		view := h.cfg.Store.View()
		if q.addr.IsValid() {
			h.open(s, view)
		}
		h.remake(s, view)
	}
	s.watchers[w] = struct{}{}
	return s
}

// leave ends what a stream is told, and with the last one the subject.
func (h *hub) leave(s *subject, w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(s.watchers, w)
	if len(s.watchers) > 0 {
		return
	}
	h.reread(s, nil)
	h.count(s.answer.Load(), nil)
	delete(h.subjects, s.question)
	h.cfg.Store.Need(s.id)
	if s.question.addr.IsValid() {
		h.shut(s)
	}
}

// remake makes the answer to a question, and tells the streams if it is another one.
func (h *hub) remake(s *subject, view facts.View) {
	made := h.make(s, view)
	h.reread(s, made.Reads)
	s.chain = made.Chain
	h.cfg.Store.Need(s.id, made.Needs...)
	before := s.answer.Load()
	if before != nil && before.same(made) {
		return
	}
	s.answer.Store(newAnswer(made, before, h.cfg))
	h.count(before, &made.profile)
	for w := range s.watchers {
		w.ring()
	}
}

// count counts the routes that a profile cannot say, instead of those of the answer before; either may be nil.
func (h *hub) count(before *answer, now *Profile) {
	if before != nil {
		h.leftOut, h.weakened = h.leftOut-before.profile.Unexpressed, h.weakened-before.profile.Weakened
	}
	if now != nil {
		h.leftOut, h.weakened = h.leftOut+now.Unexpressed, h.weakened+now.Weakened
	}
	h.cfg.Metrics.ProfileRoutes(h.leftOut, h.weakened)
}

func (h *hub) reread(s *subject, reads map[facts.ID]struct{}) {
	for id := range s.reads {
		if _, still := reads[id]; still {
			continue
		}
		if delete(h.byFact[id], s); len(h.byFact[id]) == 0 {
			delete(h.byFact, id)
		}
	}
	for id := range reads {
		if h.byFact[id] == nil {
			h.byFact[id] = map[*subject]struct{}{}
		}
		h.byFact[id][s] = struct{}{}
	}
	s.reads = reads
}

// made is what an answer is made of.
type made struct {
	Resolution
	profile Profile
	bytes   []byte
	// conflict says why the question has no answer that is right.
	conflict string
}

func (h *hub) make(s *subject, view facts.View) made {
	q := s.question
	switch {
	case q.addr.IsValid():
		return h.byAddress(s, view)
	case q.profile:
		return described(h.cfg.Place.Describe(view, q.name, q.reader, s.chain))
	}
	return made{Resolution: h.cfg.Place.Resolve(view, q.name, q.reader, s.chain)}
}

func described(d Description) made {
	return made{Resolution: d.Resolution, profile: d.Profile, bytes: d.Profile.encoded()}
}

// byAddress is the profile of the service that has an address for its virtual IP, else of the instance that
// listens there, else of nothing.
func (h *hub) byAddress(s *subject, view facts.View) made {
	q := s.question
	if h.pending != "" {
		return made{Resolution: Resolution{Pending: h.pending, Chain: s.chain}}
	}
	owners := h.book.owners(q.addr.Addr())
	if len(owners) > 1 {
		return made{Resolution: Resolution{State: NoEndpoints}, conflict: fmt.Sprintf("%s is the virtual IP of several services: %q", q.addr.Addr(), owners)}
	}
	if len(owners) == 1 {
		name := Name{Service: owners[0], Datacenter: h.cfg.Place.Datacenter, Port: q.addr.Port()}
		return described(h.cfg.Place.Describe(view, name, q.reader, s.chain))
	}
	in := h.book.instance(q.addr)
	if in == nil {
		p := DefaultProfile()
		return made{Resolution: Resolution{State: NoService}, profile: p, bytes: p.encoded()}
	}
	if service, _ := serviceOf(in); q.reader != "" {
		d := h.cfg.Place.Describe(view, Name{Service: service, Datacenter: h.cfg.Place.Datacenter, Port: q.addr.Port()}, q.reader, nil)
		if d.State == Unknown {
			return described(d)
		}
	}
	return described(h.cfg.Place.DescribeInstance(view, in, q.addr, Encoder{Origin: q.origin, HTTP2: h.cfg.HTTP2}))
}

// same reports whether streams would be told the same.
func (a *answer) same(m made) bool {
	return a.State == m.State && a.Pending == m.Pending && a.Denied == m.Denied && a.conflict == m.conflict &&
		a.Set.Equal(m.Set) && bytes.Equal(a.bytes, m.bytes) && len(a.Problems) == len(m.Problems)
}
