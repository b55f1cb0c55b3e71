package xds

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/snapshot"
	"github.com/catenary-mesh/catenary/xds/envoy"
	"github.com/catenary-mesh/catenary/xds/session"
)

// coalesce is how long changes gather after one that went out at once.
const coalesce = 10 * time.Millisecond

// publisher owns the products: it remakes what changed facts touch, encodes what came out different,
// publishes it as a new root and marks exactly the streams that have it.
type publisher struct {
	cfg      Config
	root     atomic.Pointer[root]
	jobs     sync.WaitGroup
	settling *settling
	turn     chan struct{} // held by each large job at work; one core is left to the others

	mu       sync.Mutex // guards all below
	cache    *snapshot.Cache
	clients  map[string]*member // by stream ID
	left     departures
	ended    bool // run has: nothing is kept any more
	listings map[*snapshot.Selection]*listing
	variants map[snapshot.Ref]*variant
	byKey    map[snapshot.Key]map[*variant]struct{}
	unlisted []*variant // that lost their last listing
	lastID   uint64
	reported reported
}

// member is a client that is planned: one with a stream, or one that left a short while ago.
type member struct {
	stream  *stream
	listing *listing
}

func newPublisher(cfg Config) *publisher {
	p := &publisher{
		cfg:      cfg,
		settling: newSettling(),
		turn:     make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1)),
		cache: snapshot.NewCache(snapshot.Config{
			Datacenter: cfg.Datacenter, TrustDomain: cfg.TrustDomain,
		}),
		clients:  map[string]*member{},
		listings: map[*snapshot.Selection]*listing{},
		variants: map[snapshot.Ref]*variant{},
		byKey:    map[snapshot.Key]map[*variant]struct{}{},
	}
	p.root.Store(newRoot())
	return p
}

// run publishes changes until ctx ends. A lone change goes out at once; what follows closely gathers.
func (p *publisher) run(ctx context.Context, sub *facts.Subscription) {
	defer p.end()
	defer sub.Close()
	sweep := time.NewTicker(p.cfg.Linger/4 + 1)
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-sweep.C:
			p.forget(now)
			continue
		case <-sub.Bell():
		}
		p.update(sub)
		select {
		case <-ctx.Done():
			return
		case <-time.After(coalesce):
		}
	}
}

// update publishes what changed. The view is taken under the lock, as that of join is: in any other
// order one that joins meanwhile would be given newer facts, and this would take them back. Endpoint
// sets are made and encoded outside the lock, the large ones without anything else waiting for them.
func (p *publisher) update(sub *facts.Subscription) {
	p.mu.Lock()
	view, changed := sub.Drain()
	if len(changed) == 0 {
		p.mu.Unlock()
		return
	}
	delta, jobs := p.cache.Advance(view, changed)
	tell := p.publish(delta, nil)
	batches := p.batches(jobs)
	p.mu.Unlock()
	tell.marks()
	for _, b := range batches {
		if !b.large {
			p.make(b)
			continue
		}
		p.jobs.Go(func() {
			p.turn <- struct{}{}
			defer func() { <-p.turn }()
			p.make(b)
		})
	}
}

// batch is endpoint sets to be made together, with the names under which each is published.
type batch struct {
	jobs  []*snapshot.Job
	refs  [][]snapshot.Ref
	large bool
}

// batches puts all jobs into one batch, the first, but for the large ones. The caller holds the lock.
func (p *publisher) batches(jobs []*snapshot.Job) []*batch {
	var small []*snapshot.Job
	var list []*batch
	for _, j := range jobs {
		if !j.Large() {
			small = append(small, j)
			continue
		}
		b := p.batch([]*snapshot.Job{j})
		b.large = true
		list = append(list, b)
	}
	if len(small) > 0 {
		list = append([]*batch{p.batch(small)}, list...)
	}
	return list
}

// batch puts jobs into one batch. The caller holds the lock.
func (p *publisher) batch(jobs []*snapshot.Job) *batch {
	b := &batch{jobs: jobs}
	for _, j := range jobs {
		var refs []snapshot.Ref
		for v := range p.byKey[j.Key()] {
			refs = append(refs, v.ref)
		}
		b.refs = append(b.refs, refs)
	}
	return b
}

// make makes and encodes a batch, then publishes it. What facts changed meanwhile it makes again.
func (p *publisher) make(b *batch) {
	for len(b.jobs) > 0 {
		made := make([]snapshot.Made, 0, len(b.jobs))
		encoded := map[snapshot.Ref]*session.Resource{}
		for i, j := range b.jobs {
			m := j.Make()
			made = append(made, m)
			if value, changed := m.Value(); changed {
				for _, ref := range b.refs[i] {
					encoded[ref] = p.encode(ref, value)
				}
			}
		}
		p.mu.Lock()
		delta := snapshot.Delta{Products: map[snapshot.Key]any{}}
		var again []*snapshot.Job
		for _, m := range made {
			if j := p.cache.Commit(m, &delta); j != nil {
				again = append(again, j)
			}
		}
		tell := p.publish(delta, encoded)
		b = p.batch(again)
		p.mu.Unlock()
		tell.marks()
	}
}

// join plans a stream's client and publishes what it gets.
func (p *publisher) join(st *stream) {
	p.settling.join()
	p.mu.Lock()
	p.clients[st.id] = &member{stream: st}
	tell := p.publish(p.cache.Put(st.id, st.planned(st.names), p.cfg.Store.View()), nil)
	p.mu.Unlock()
	tell.marks()
}

// replan plans a stream's client anew, by the names that it asks for now.
func (p *publisher) replan(st *stream, names []string) {
	p.mu.Lock()
	if m := p.clients[st.id]; m == nil || m.stream == nil {
		p.mu.Unlock()
		return // it has left meanwhile
	}
	tell := p.publish(p.cache.Put(st.id, st.planned(names), p.cfg.Store.View()), nil)
	p.mu.Unlock()
	tell.marks()
}

// leave ends a stream, and what it needs. Its client stays planned for a while, so that it finds everything
// as it was if it comes back soon: for as long as sources go on following what nobody needs.
func (p *publisher) leave(st *stream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.clients[st.id]
	m.stream = nil
	delete(m.listing.streams, st)
	p.need(m.listing)
	p.cfg.Store.Need(st.id)
	next := *p.root.Load()
	next.seats, _, _ = next.seats.Delete([]byte(st.id))
	p.root.Store(&next)
	if p.ended {
		p.drop(st.id)
		return
	}
	for _, id := range p.left.add(st.id, time.Now().Add(p.cfg.Linger)) {
		p.drop(id)
	}
}

// end waits for what is being made, and forgets those that will not come back here.
func (p *publisher) end() {
	p.jobs.Wait()
	p.settling.timer.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	for _, id := range p.left.all() {
		p.drop(id)
	}
}

// forget drops the clients that left long enough ago.
func (p *publisher) forget(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range p.left.due(now) {
		p.drop(id)
	}
}

// drop forgets a client that has no stream any more. The caller holds the lock.
func (p *publisher) drop(id string) {
	m := p.clients[id]
	delete(p.clients, id)
	delta := p.cache.Drop(id)
	p.unlist(m.listing)
	p.publish(delta, nil)
}

// publish makes what changed visible and returns whom to tell of it: to be done without the lock,
// which the caller holds. encoded is what is encoded already.
func (p *publisher) publish(d snapshot.Delta, encoded map[snapshot.Ref]*session.Resource) notes {
	tell := notes{}
	resources := p.root.Load().resources.Txn()
	seats := p.root.Load().seats.Txn()
	for id, plan := range d.Plans {
		m := p.clients[id]
		last := m.listing
		m.listing = p.listingOf(plan.Selection, d.Products)
		if m.stream != nil {
			p.cfg.Store.Need(id, plan.Own...)
			m.listing.streams[m.stream] = struct{}{}
			p.need(m.listing)
			seats.Insert([]byte(id), seat{plan, m.listing})
			tell.replanned = append(tell.replanned, m.stream)
		}
		if last != nil {
			if m.stream != nil && last != m.listing {
				delete(last.streams, m.stream)
				p.need(last)
			}
			p.unlist(last)
		}
	}
	for key, product := range d.Products {
		for v := range p.byKey[key] {
			res, ok := encoded[v.ref]
			if !ok {
				res = p.encode(v.ref, product)
			}
			if old, ok := resources.Get(v.key); res == nil || ok && old.Version == res.Version {
				continue // what is published stays
			}
			resources.Insert(v.key, res)
			tell.add(v)
		}
	}
	p.sweep(d.Dropped, func(v *variant) { resources.Delete(v.key) })
	p.root.Store(&root{resources: resources.Commit(), seats: seats.Commit()})
	p.report()
	return tell
}

// encode encodes a product; nil when that cannot be done.
func (p *publisher) encode(ref snapshot.Ref, product any) *session.Resource {
	p.cfg.Metrics.Encoded(typeOf(ref.Key).Name)
	res, err := p.resource(ref, product)
	if err != nil {
		p.cfg.Logger.Error("a product cannot be encoded; the last one stays", "name", ref.Name, "error", err)
		return nil
	}
	res.PublishedAt = time.Now()
	return res
}

// resource translates a product. A key comes from who keeps it: it is in no product.
func (p *publisher) resource(ref snapshot.Ref, product any) (*session.Resource, error) {
	leaf, ok := product.(facts.Leaf)
	if !ok {
		return envoy.Resource(ref, product)
	}
	chain, key, ok := p.cfg.Secrets.Pair(leaf)
	if !ok {
		return nil, fmt.Errorf("the key of the certificate %s of %s is not kept any more", leaf.Serial, leaf.Service)
	}
	return envoy.Leaf(ref.Name, chain, key)
}
