package snapshot

import (
	"github.com/catenary-mesh/catenary/internal/facts"
)

// Cache holds what clients have, each thing made once for everyone who has it, and knows which facts
// each was made of: chains, the parts of plans made of them, the plans of clients put together of
// those, and products. It is for one goroutine; what it returns is immutable.
type Cache struct {
	cfg        Config
	view       facts.View
	chains     map[ChainKey]*chainEntry
	parts      map[PartKey]*partEntry
	lists      map[string]*listEntry      // by their parts
	selections map[string]*selectionEntry // by the plans of their parts
	products   map[Key]*productEntry
	clients    map[string]*clientEntry
	facts      map[facts.ID]*fact
	counts     Counts
	lastID     uint64
}

// reader is whatever was made of facts, or of something that was.
type reader interface {
	// stale notes that it is to be made again.
	stale(u *update)
}

// Counts counts what was done since the start.
type Counts struct {
	// Plans counts how often it was found out which parts the plan of a client has, Parts how often one
	// was planned.
	Plans, Parts int
	Chains       int
	Products     map[string]int
}

// Delta is what an update changed.
type Delta struct {
	// Plans are the new plans of clients whose plan changed.
	Plans map[string]*Plan
	// Products are those that were made for the first time or came out different: an [EndpointSet],
	// [ClusterKey], [AggregateKey], [Routes] or [ListenerKey], by key.
	Products map[Key]any
	// Dropped are the keys that no client has any more.
	Dropped []Key
}

// NewCache returns an empty cache.
func NewCache(cfg Config) *Cache {
	return &Cache{
		cfg:        cfg,
		chains:     map[ChainKey]*chainEntry{},
		parts:      map[PartKey]*partEntry{},
		lists:      map[string]*listEntry{},
		selections: map[string]*selectionEntry{},
		products:   map[Key]*productEntry{},
		clients:    map[string]*clientEntry{},
		facts:      map[facts.ID]*fact{},
		counts:     Counts{Products: map[string]int{}},
	}
}

// Put adds or replaces a client under an ID of the caller's choice and plans it. The plan is always
// part of what it returns.
func (c *Cache) Put(id string, client Client, view facts.View) Delta {
	c.view = view
	u := c.begin()
	e, ok := c.clients[id]
	if !ok {
		e = newClient(id)
		c.clients[id] = e
	}
	e.client = client
	e.stale(u)
	u.finish()
	c.complete(u.jobs, &u.delta)
	u.delta.Plans[id] = e.plan
	return u.delta
}

// Drop removes a client.
func (c *Cache) Drop(id string) Delta {
	u := c.begin()
	if e, ok := c.clients[id]; ok {
		u.reread(e, e.reads, nil)
		u.unuse(e)
		u.release(e.selection)
		delete(c.clients, id)
	}
	u.finish()
	return u.delta
}

// Update remakes what was made of the facts that changed.
func (c *Cache) Update(view facts.View, changed []facts.ID) Delta {
	delta, jobs := c.Advance(view, changed)
	c.complete(jobs, &delta)
	return delta
}

// complete does jobs here and now.
func (c *Cache) complete(jobs []*Job, d *Delta) {
	for _, job := range jobs {
		for job != nil {
			job = c.Commit(job.Make(), d)
		}
	}
}

// Advance remakes what was made of the facts that changed, but for endpoint sets that there were
// before: those are left to jobs, each to be made, anywhere and at any time, and then given to
// [Cache.Commit].
func (c *Cache) Advance(view facts.View, changed []facts.ID) (Delta, []*Job) {
	c.view = view
	u := c.begin()
	for _, id := range changed {
		if f, read := c.facts[id]; read {
			for who := range f.readers {
				who.stale(u)
			}
		}
	}
	u.finish()
	return u.delta, u.jobs
}

// update is the work of one call of Advance, Put or Drop.
type update struct {
	*Cache
	delta Delta
	jobs  []*Job

	// What is to be made again, each kind after those before it.
	staleChains   map[*chainEntry]struct{}
	staleParts    map[*partEntry]struct{}
	staleClients  map[*clientEntry]struct{}
	loose         map[*clientEntry]struct{} // whose plan is to be put together again
	staleProducts map[*productEntry]struct{}

	// What lost a user, and goes if it has none left.
	unusedProducts map[*productEntry]struct{}
	unusedParts    map[*partEntry]struct{}
	unusedChains   map[*chainEntry]struct{}
}

func (c *Cache) begin() *update {
	return &update{
		Cache:          c,
		delta:          Delta{Plans: map[string]*Plan{}, Products: map[Key]any{}},
		staleChains:    map[*chainEntry]struct{}{},
		staleParts:     map[*partEntry]struct{}{},
		staleClients:   map[*clientEntry]struct{}{},
		loose:          map[*clientEntry]struct{}{},
		staleProducts:  map[*productEntry]struct{}{},
		unusedProducts: map[*productEntry]struct{}{},
		unusedParts:    map[*partEntry]struct{}{},
		unusedChains:   map[*chainEntry]struct{}{},
	}
}

// finish makes what is due, from what others are made of to what is made of others, and forgets what
// nobody uses any more, in the opposite order.
func (u *update) finish() {
	for e := range u.staleChains {
		u.remakeChain(e)
	}
	for e := range u.staleParts {
		u.remakePart(e)
	}
	for e := range u.staleClients {
		u.replan(e)
	}
	for e := range u.loose {
		u.compose(e)
	}
	u.sweepProducts()
	for e := range u.staleProducts {
		u.remake(e)
	}
	u.sweepParts()
	u.sweepChains()
}

// Counts returns what was done since the start.
func (c *Cache) Counts() Counts {
	counts := c.counts
	counts.Products = make(map[string]int, len(c.counts.Products))
	for k, n := range c.counts.Products {
		counts.Products[k] = n
	}
	return counts
}

// Chain returns the state of a chain that some client has; ok is false when none does.
func (c *Cache) Chain(key ChainKey) (state ChainState, ok bool) {
	if e, found := c.chains[key]; found {
		return e.state, true
	}
	return ChainState{}, false
}

// Chains returns the state of every chain that some client has.
func (c *Cache) Chains() map[ChainKey]ChainState {
	all := make(map[ChainKey]ChainState, len(c.chains))
	for key, e := range c.chains {
		all[key] = e.state
	}
	return all
}

// ChainCount is how many chains some client has.
func (c *Cache) ChainCount() int { return len(c.chains) }

// Plan returns a client's plan, or nil.
func (c *Cache) Plan(id string) *Plan {
	if e, ok := c.clients[id]; ok {
		return e.plan
	}
	return nil
}

// Product returns a product that some client has; ok is false when none does or it is not made yet.
func (c *Cache) Product(key Key) (value any, ok bool) {
	if e, found := c.products[key]; found && e.value != nil {
		return e.value, true
	}
	return nil, false
}

// Compile returns the state of a chain, from the cache where some client has it and compiled from the
// view where none does. It leaves no trace in the cache.
func (c *Cache) Compile(key ChainKey, view facts.View) ChainState {
	if state, ok := c.Chain(key); ok {
		return state
	}
	return makeChain(c.cfg, key, view.Read(), ChainState{})
}
