package destination

import (
	"sync"
	"sync/atomic"
)

// answer is what is known of a question. What streams share of it is encoded when the first of them wants it, and
// once; nothing else of it changes.
type answer struct {
	made
	encoded func() // counts

	mu       sync.Mutex // guards the maps, not what is made for them
	pools    map[Encoder]*once[*Pool]
	profiles map[Encoder]*once[[]byte]
	steps    map[leg]*once[[]Step]
	last     map[Encoder]*Pool // of the answer before, for what of it is the same
}

// leg is from what a stream was told to what it is to be told.
type leg struct {
	state State
	pool  *Pool
	to    *Pool
}

// maxLegs bounds the steps that are kept for others who need the same. Most streams go with the latest; whoever is
// slower has steps of its own.
const maxLegs = 8

// once is made by the first who wants it, while others who want it wait.
type once[V any] struct {
	sync.Once
	value atomic.Pointer[V]
}

func (o *once[V]) get(first func() V) V {
	o.Do(func() {
		v := first()
		o.value.Store(&v)
	})
	return *o.value.Load()
}

func newAnswer(m made, before *answer, cfg Config) *answer {
	a := &answer{
		made: m, pools: map[Encoder]*once[*Pool]{}, profiles: map[Encoder]*once[[]byte]{}, steps: map[leg]*once[[]Step]{},
		encoded: func() { cfg.Metrics.Encoded(typeEndpoints) },
	}
	if before == nil {
		return a
	}
	before.mu.Lock()
	defer before.mu.Unlock()
	for e, p := range before.pools {
		if pool := p.value.Load(); pool != nil {
			if a.last == nil {
				a.last = map[Encoder]*Pool{}
			}
			a.last[e] = *pool
		}
	}
	if a.last == nil {
		a.last = before.last
	}
	return a
}

// next returns the steps that take a stream to the answer, and notes them as told.
func (a *answer) next(g *Get, e Encoder) []Step {
	var pool *Pool
	if a.State == Some {
		pool = a.pool(e.For(a.Set))
	}
	if l := (leg{g.state, g.pool, pool}); a.State != Unknown {
		if shared := a.leg(l); shared != nil {
			before := *g
			*g = Get{state: a.State, pool: pool}
			return shared.get(func() []Step { return before.Next(a.State, pool) })
		}
	}
	return g.Next(a.State, pool)
}

// leg is what streams share that go the same way; nil when there are too many ways.
func (a *answer) leg(l leg) *once[[]Step] {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.steps[l] == nil && len(a.steps) < maxLegs {
		a.steps[l] = &once[[]Step]{}
	}
	return a.steps[l]
}

func (a *answer) pool(e Encoder) *Pool {
	a.mu.Lock()
	p := a.pools[e]
	if p == nil {
		p = &once[*Pool]{}
		a.pools[e] = p
	}
	a.mu.Unlock()
	return p.get(func() *Pool {
		a.encoded()
		return e.Encode(a.Set, a.last[e])
	})
}

// profileFor is the profile as a proxy is sent it; how near an endpoint is depends on where the proxy runs.
func (a *answer) profileFor(e Encoder) []byte {
	e = e.For(a.Set)
	a.mu.Lock()
	p := a.profiles[e]
	if p == nil {
		p = &once[[]byte]{}
		a.profiles[e] = p
	}
	a.mu.Unlock()
	return p.get(func() []byte { return a.profile.At(a.Set, e).encoded() })
}
