package destination

import (
	"context"
	"net/netip"
	"runtime"
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
	addr   netip.AddrPort
	reader string
}

// subject is a question that somebody asks.
type subject struct {
	question question
	id       string // of its needs
	answer   atomic.Pointer[answer]
	chain    *chain.Chain // the last that compiled; of whoever makes the answer

	// Guarded by the hub's lock.
	watchers map[*watcher]struct{}
	reads    map[facts.ID]struct{}
	stale    bool // its answer is to be made again
	making   bool // somebody makes it
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

// hub has the answer to every question that is asked, and makes those again whose facts changed. It makes them
// outside its lock, each by one at a time, so that none waits for the answer to another question.
type hub struct {
	cfg       Config
	addresses *directory
	atlas     *atlas
	resolve   func(*subject, facts.View) made // makes an answer

	mu       sync.Mutex // guards all below
	subjects map[question]*subject
	byFact   map[facts.ID]map[*subject]struct{}
	// While answers are being made it is noted which facts changed, and in which round: what was read of them may
	// be old, and nobody can tell before it is known what was read.
	makers int
	round  uint64
	news   map[facts.ID]uint64

	// datacenters are those that names are of, but for the own, and how many subjects.
	datacenters map[string]int

	lastID   uint64
	leftOut  int // routes of all profiles, and those that lost something to them
	weakened int
	broken   broken
}

func newHub(cfg Config) *hub {
	h := &hub{
		cfg: cfg, subjects: map[question]*subject{}, byFact: map[facts.ID]map[*subject]struct{}{},
		news: map[facts.ID]uint64{}, datacenters: map[string]int{}, broken: broken{},
	}
	h.addresses, h.atlas = newDirectory(cfg, h.outdate), newAtlas(cfg)
	h.resolve = h.make
	return h
}

// coalesce is how long changes gather after one that went out at once.
const coalesce = 10 * time.Millisecond

// run makes answers again until ctx ends. A lone change goes out at once; what follows closely gathers.
func (h *hub) run(ctx context.Context, sub *facts.Subscription) {
	defer sub.Close()
	var group sync.WaitGroup
	defer group.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-sub.Bell():
		}
		_, changed := sub.Drain()
		h.remake(&group, h.touched(changed))
		select {
		case <-ctx.Done():
			return
		case <-time.After(coalesce):
		}
	}
}

// touched marks the subjects that changed facts touch, and returns them.
func (h *hub) touched(changed []facts.ID) []*subject {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.round++
	var stale []*subject
	for _, id := range changed {
		if h.makers > 0 {
			h.news[id] = h.round
		}
		for s := range h.byFact[id] {
			if !s.stale {
				s.stale = true
				stale = append(stale, s)
			}
		}
	}
	return stale
}

// outdate has the answers of subjects made again.
func (h *hub) outdate(group *sync.WaitGroup, list []*subject) {
	h.mu.Lock()
	for _, s := range list {
		s.stale = true
	}
	h.mu.Unlock()
	h.remake(group, list)
}

// remake makes the answers of subjects again, some at once.
func (h *hub) remake(group *sync.WaitGroup, list []*subject) {
	var next atomic.Int64
	for range min(len(list), 4*runtime.GOMAXPROCS(0)) {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(list)); i = next.Add(1) - 1 {
				h.settle(list[i])
			}
		})
	}
}

// settle makes the answer of a subject, until it is not stale; not if somebody else does.
func (h *hub) settle(s *subject) {
	for {
		round, ok := h.begin(s)
		if !ok {
			return
		}
		// The view is taken after the round, so that what changes from now on is told in a later one.
		m := h.resolve(s, h.cfg.Store.View())
		s.chain = m.Chain
		before := s.answer.Load()
		if before.same(m) {
			h.end(s, m, round, nil)
		} else {
			h.end(s, m, round, newAnswer(m, before, h.cfg))
		}
	}
}

func (h *hub) begin(s *subject) (round uint64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.making || !s.stale || len(s.watchers) == 0 {
		return 0, false
	}
	s.making, s.stale = true, false
	h.makers++
	return h.round, true
}

// end takes over what was made, with the answer if it is another one, and tells the streams of that.
func (h *hub) end(s *subject, m made, round uint64, next *answer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.making = false
	s.stale = s.stale || h.changedSince(m.Reads, round)
	if h.makers--; h.makers == 0 {
		clear(h.news)
	}
	if len(s.watchers) == 0 {
		return // all left meanwhile
	}
	h.reread(s, m.Reads)
	h.cfg.Store.Need(s.id, m.Needs...)
	if next == nil {
		return
	}
	h.count(s.answer.Load(), &m.profile)
	h.tell(s.answer.Load(), &m)
	s.answer.Store(next)
	for w := range s.watchers {
		w.ring()
	}
}

func (h *hub) changedSince(reads map[facts.ID]struct{}, round uint64) bool {
	if len(h.news) < len(reads) {
		for id, at := range h.news {
			if _, read := reads[id]; read && at > round {
				return true
			}
		}
		return false
	}
	for id := range reads {
		if h.news[id] > round {
			return true
		}
	}
	return false
}

// maxDatacenters bounds in how many datacenters names can be: Consul is asked about each, whether there is one or not.
const maxDatacenters = 64

// foreign is the datacenter of a question, empty for the own.
func (h *hub) foreign(q question) string {
	if q.name.Datacenter == h.cfg.Place.Datacenter {
		return ""
	}
	return q.name.Datacenter
}

// join returns the subject of a question, for a stream that is told from now on. The first one to ask makes the
// answer; who comes before there is one is told to wait.
func (h *hub) join(q question, w *watcher) (*subject, error) {
	s, first, err := h.admit(q, w)
	if first {
		if q.addr.IsValid() {
			h.addresses.follow(s)
		}
		h.settle(s)
	}
	return s, err
}

func (h *hub) admit(q question, w *watcher) (s *subject, first bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s = h.subjects[q]; s == nil {
		if far := h.foreign(q); far != "" {
			if h.datacenters[far] == 0 && len(h.datacenters) == maxDatacenters {
				return nil, false, errDatacenters
			}
			h.datacenters[far]++
		}
		h.lastID++
		s = &subject{
			question: q, id: "destination#" + strconv.FormatUint(h.lastID, 10), watchers: map[*watcher]struct{}{}, stale: true,
		}
		s.answer.Store(newAnswer(made{Resolution: Resolution{Pending: "it is being looked up"}}, nil, h.cfg))
		h.subjects[q] = s
		first = true
	}
	s.watchers[w] = struct{}{}
	return s, first, nil
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
	h.tell(s.answer.Load(), nil)
	delete(h.subjects, s.question)
	if far := h.foreign(s.question); far != "" {
		if h.datacenters[far]--; h.datacenters[far] == 0 {
			delete(h.datacenters, far)
		}
	}
	h.cfg.Store.Need(s.id)
	if s.question.addr.IsValid() {
		h.addresses.drop(s)
	}
}

// count counts the routes that a profile cannot say, instead of those of the answer before; now may be nil.
func (h *hub) count(before *answer, now *Profile) {
	h.leftOut, h.weakened = h.leftOut-before.profile.Unexpressed, h.weakened-before.profile.Weakened
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
