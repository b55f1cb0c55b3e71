package destination

import "sync"

// answer is what is known of a question. What streams share of it is encoded when the first of them wants it, and
// once; nothing else of it changes.
type answer struct {
	made
	encoded func() // counts

	mu    sync.Mutex // guards all below
	pools map[Encoder]*Pool
	last  map[Encoder]*Pool // of the answer before, for what of it is the same
	steps map[leg][]Step
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

func newAnswer(m made, before *answer, cfg Config) *answer {
	a := &answer{made: m, pools: map[Encoder]*Pool{}, steps: map[leg][]Step{}, encoded: func() { cfg.Metrics.Encoded(typeEndpoints) }}
	if before == nil {
		return a
	}
	before.mu.Lock()
	defer before.mu.Unlock()
	if a.last = before.pools; len(a.last) == 0 {
		a.last = before.last
	}
	return a
}

// next returns the steps that take a stream to the answer, and notes them as told.
func (a *answer) next(g *Get, e Encoder) []Step {
	a.mu.Lock()
	defer a.mu.Unlock()
	var pool *Pool
	if a.State == Some {
		pool = a.pool(e.For(a.Set))
	}
	l := leg{g.state, g.pool, pool}
	if steps, known := a.steps[l]; known {
		*g = Get{state: a.State, pool: pool}
		return steps
	}
	steps := g.Next(a.State, pool)
	if a.State != Unknown && len(a.steps) < maxLegs {
		a.steps[l] = steps
	}
	return steps
}

func (a *answer) pool(e Encoder) *Pool {
	p, ok := a.pools[e]
	if !ok {
		p = e.Encode(a.Set, a.last[e])
		a.pools[e] = p
		a.encoded()
	}
	return p
}
