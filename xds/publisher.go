package xds

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/snapshot"
	"github.com/catenary-mesh/catenary/xds/envoy"
	"github.com/catenary-mesh/catenary/xds/session"
)

// coalesce is how long changes gather after one that went out at once.
const coalesce = 10 * time.Millisecond

// variant is a published product under a name, and the streams whose client has it.
type variant struct {
	id      variantID
	typ     *session.Type
	streams map[*stream]struct{}
}

// publisher owns the products: it remakes what changed facts touch, encodes what came out different,
// publishes it as a new root and marks exactly the streams that have it.
type publisher struct {
	cfg  Config
	root atomic.Pointer[root]

	mu       sync.Mutex // guards all below
	cache    *snapshot.Cache
	variants map[snapshot.Ref]*variant
	byKey    map[snapshot.Key]map[snapshot.Ref]struct{}
	lastID   variantID
	problems map[snapshot.ChainKey]string // logged, by chain
	counts   snapshot.Counts              // reported to metrics
}

func newPublisher(cfg Config) *publisher {
	p := &publisher{
		cfg: cfg,
		cache: snapshot.NewCache(snapshot.Config{
			Datacenter: cfg.Datacenter, TrustDomain: cfg.TrustDomain, PlaintextMesh: cfg.PlaintextMesh,
		}),
		variants: map[snapshot.Ref]*variant{},
		byKey:    map[snapshot.Key]map[snapshot.Ref]struct{}{},
		problems: map[snapshot.ChainKey]string{},
	}
	p.root.Store(newRoot())
	return p
}

// run publishes changes until ctx ends. A lone change goes out at once; what follows closely gathers.
func (p *publisher) run(ctx context.Context, sub *facts.Subscription) {
	defer sub.Close()
	for {
		select {
		case <-ctx.Done():
			return
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
// order one that joins meanwhile would be given newer facts, and this would take them back.
func (p *publisher) update(sub *facts.Subscription) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if view, changed := sub.Drain(); len(changed) > 0 {
		p.publish(p.cache.Update(view, changed), nil)
	}
}

// join plans a stream's client and publishes what it gets.
func (p *publisher) join(st *stream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.publish(p.cache.Put(st.id, st.client, p.cfg.Store.View()), st)
}

// leave forgets a stream's client.
func (p *publisher) leave(st *stream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cfg.Store.Need(st.id)
	if st.view != nil {
		p.unindex(st, st.view.plan)
	}
	p.publish(p.cache.Drop(st.id), nil)
	next := *p.root.Load()
	next.views, _, _ = next.views.Delete([]byte(st.id))
	p.root.Store(&next)
}

// publish makes what changed visible, then tells the streams. joined is the stream of a client that
// is new, if any. The caller holds the lock.
func (p *publisher) publish(d snapshot.Delta, joined *stream) {
	for id, plan := range d.Plans {
		p.cfg.Store.Need(id, plan.Needs...)
	}
	resources := p.root.Load().resources.Txn()
	views := p.root.Load().views.Txn()
	replanned := map[*stream]struct{}{}
	for id, plan := range d.Plans {
		st := joined
		if old, ok := views.Get([]byte(id)); ok {
			st = old.stream
		}
		p.index(st, plan, d.Products)
		if st.view != nil {
			p.unindex(st, st.view.plan)
		}
		st.view = newClientView(st, plan, p.variants)
		views.Insert([]byte(id), st.view)
		replanned[st] = struct{}{}
	}
	dirty := map[*variant]snapshot.Ref{}
	for key, product := range d.Products {
		for ref := range p.byKey[key] {
			v := p.variants[ref]
			if res := p.encode(ref, product, v, resources.Get); res != nil {
				resources.Insert(v.id.key(), res)
				dirty[v] = ref
			}
		}
	}
	p.sweep(d.Dropped, func(v *variant) { resources.Delete(v.id.key()) })
	p.root.Store(&root{resources: resources.Commit(), views: views.Commit()})

	for v, ref := range dirty {
		for st := range v.streams {
			st.mark(v.typ, ref.Name)
		}
	}
	for st := range replanned {
		st.wake()
	}
	p.report()
}

// encode encodes a product; nil when its bytes are those that are published, or when it cannot be
// encoded: what is published then stays.
func (p *publisher) encode(ref snapshot.Ref, product any, v *variant,
	published func([]byte) (*session.Resource, bool),
) *session.Resource {
	res, err := envoy.Resource(ref, product)
	if err != nil {
		p.cfg.Logger.Error("a product cannot be encoded; the last one stays", "name", ref.Name, "error", err)
		return nil
	}
	if old, ok := published(v.id.key()); ok && old.Version == res.Version {
		return nil
	}
	return res
}

// index adds a stream to all variants of a plan. A product that gets another name is due for encoding
// under it.
func (p *publisher) index(st *stream, plan *snapshot.Plan, due map[snapshot.Key]any) {
	for _, ref := range plan.Resources() {
		v := p.variants[ref]
		if v == nil {
			if product, made := p.cache.Product(ref.Key); made {
				due[ref.Key] = product
			}
			p.lastID++
			v = &variant{id: p.lastID, typ: typeOf(ref.Key), streams: map[*stream]struct{}{}}
			p.variants[ref] = v
			if p.byKey[ref.Key] == nil {
				p.byKey[ref.Key] = map[snapshot.Ref]struct{}{}
			}
			p.byKey[ref.Key][ref] = struct{}{}
		}
		v.streams[st] = struct{}{}
	}
}

// unindex removes a stream from the variants of its former plan that it no longer has.
func (p *publisher) unindex(st *stream, old *snapshot.Plan) {
	has := map[snapshot.Ref]bool{}
	if plan := p.cache.Plan(st.id); plan != nil && plan != old {
		for _, ref := range plan.Resources() {
			has[ref] = true
		}
	}
	for _, ref := range old.Resources() {
		if v := p.variants[ref]; v != nil && !has[ref] {
			delete(v.streams, st)
		}
	}
}

// sweep forgets the variants of dropped products.
func (p *publisher) sweep(dropped []snapshot.Key, forget func(*variant)) {
	for _, key := range dropped {
		for ref := range p.byKey[key] {
			forget(p.variants[ref])
			delete(p.variants, ref)
		}
		delete(p.byKey, key)
	}
}

// report counts and logs what an update did: a problem once, not at every retry.
func (p *publisher) report() {
	was, now := p.counts, p.cache.Counts()
	p.counts = now
	for range now.Plans - was.Plans {
		p.cfg.Metrics.PlanRun()
	}
	for kind, n := range now.Products {
		for range n - was.Products[kind] {
			p.cfg.Metrics.ProductMade(kind)
		}
	}
	// A problem comes with a chain that is compiled, and goes with one or with its last user.
	if now.Chains != was.Chains || len(p.problems) > 0 {
		p.reportProblems()
	}
}

func (p *publisher) reportProblems() {
	now := map[snapshot.ChainKey]string{}
	for key, state := range p.cache.Chains() {
		text := firstError(state.Problems)
		if text == "" {
			continue
		}
		now[key] = text
		if p.problems[key] != text {
			p.cfg.Logger.Warn("a discovery chain does not compile", "service", key.Service,
				"datacenter", key.Datacenter, "last_good_in_force", state.LastGood, "problem", text)
		}
	}
	for key := range p.problems {
		if _, still := now[key]; !still {
			p.cfg.Logger.Info("a discovery chain compiles again, or is not used any more",
				"service", key.Service, "datacenter", key.Datacenter)
		}
	}
	p.problems = now
	p.cfg.Metrics.Problems(len(now))
}

func firstError(problems []chain.Problem) string {
	for i := range problems {
		if problems[i].IsError() {
			return problems[i].Message
		}
	}
	return ""
}
