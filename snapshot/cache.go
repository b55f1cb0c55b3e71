package snapshot

import (
	"reflect"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// Cache holds the products that clients have, each made once, and knows which facts each was made
// of. It is for one goroutine; what it returns is immutable.
type Cache struct {
	cfg      Config
	view     facts.View
	chains   map[ChainKey]*chainEntry
	products map[Key]*productEntry
	clients  map[string]*clientEntry
	// readers says who read a fact: a ChainKey, a Key or a clientID.
	readers map[facts.ID]map[any]struct{}
	counts  Counts
}

// clientID names a client among the readers of facts.
type clientID string

type chainEntry struct {
	state ChainState
	reads map[facts.ID]struct{}
	// users are the products and clients that depend on the chain.
	users map[any]struct{}
}

type productEntry struct {
	value any
	reads map[facts.ID]struct{}
	refs  int
}

type clientEntry struct {
	client Client
	plan   *Plan
	reads  map[facts.ID]struct{}
	chains map[ChainKey]struct{}
}

// Counts counts what was done since the start.
type Counts struct {
	Plans    int
	Chains   int
	Products map[string]int
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
		cfg:      cfg,
		chains:   map[ChainKey]*chainEntry{},
		products: map[Key]*productEntry{},
		clients:  map[string]*clientEntry{},
		readers:  map[facts.ID]map[any]struct{}{},
		counts:   Counts{Products: map[string]int{}},
	}
}

// update is the work of one call of Update, Put or Drop.
type update struct {
	*Cache
	delta    Delta
	plans    map[string]struct{}   // clients to plan
	products map[Key]struct{}      // products to make
	released map[Key]struct{}      // products that lost a reference
	loose    map[ChainKey]struct{} // chains that lost a user
}

func (c *Cache) begin() *update {
	return &update{
		Cache: c,
		delta: Delta{Plans: map[string]*Plan{}, Products: map[Key]any{}},
		plans: map[string]struct{}{}, products: map[Key]struct{}{}, released: map[Key]struct{}{},
		loose: map[ChainKey]struct{}{},
	}
}

// Put adds or replaces a client under an ID of the caller's choice and plans it. The plan is always
// part of what it returns.
func (c *Cache) Put(id string, client Client, view facts.View) Delta {
	c.view = view
	u := c.begin()
	if old, ok := c.clients[id]; ok {
		old.client = client
	} else {
		c.clients[id] = &clientEntry{client: client, plan: &Plan{}}
	}
	u.plans[id] = struct{}{}
	d := u.finish()
	d.Plans[id] = c.clients[id].plan
	return d
}

// Drop removes a client.
func (c *Cache) Drop(id string) Delta {
	u := c.begin()
	if e, ok := c.clients[id]; ok {
		u.reread(clientID(id), e.reads, nil)
		u.rechain(clientID(id), e.chains, nil)
		for _, ref := range e.plan.Resources() {
			u.release(ref.Key)
		}
		delete(c.clients, id)
	}
	return u.finish()
}

// Update remakes what was made of the facts that changed.
func (c *Cache) Update(view facts.View, changed []facts.ID) Delta {
	c.view = view
	u := c.begin()
	chains := map[ChainKey]struct{}{}
	for _, id := range changed {
		for who := range c.readers[id] {
			switch who := who.(type) {
			case ChainKey:
				chains[who] = struct{}{}
			case clientID:
				u.plans[string(who)] = struct{}{}
			case Key:
				u.products[who] = struct{}{}
			}
		}
	}
	for key := range chains {
		u.remakeChain(key)
	}
	return u.finish()
}

// finish plans the clients that are due, then makes the products that are.
func (u *update) finish() Delta {
	for id := range u.plans {
		u.replan(id)
	}
	for key := range u.released {
		if e := u.Cache.products[key]; e.refs == 0 {
			u.reread(key, e.reads, nil)
			if ck, ok := chainOf(key); ok {
				u.unuse(ck, key)
			}
			delete(u.Cache.products, key)
			delete(u.products, key)
			u.delta.Dropped = append(u.delta.Dropped, key)
		}
	}
	for key := range u.products {
		u.remake(key)
	}
	u.sweepChains()
	return u.delta
}

func (u *update) replan(id string) {
	e := u.clients[id]
	r := u.view.Read()
	used := map[ChainKey]struct{}{}
	p := &planner{cfg: u.cfg, r: r, chains: func(key ChainKey) ChainState {
		used[key] = struct{}{}
		return u.chain(key)
	}}
	plan := p.plan(e.client)
	u.counts.Plans++
	keepLastGood(plan, e.plan)
	u.reread(clientID(id), e.reads, r.Reads())
	u.rechain(clientID(id), e.chains, used)
	old := e.plan.Resources()
	for _, ref := range plan.Resources() {
		u.acquire(ref.Key)
	}
	for _, ref := range old {
		u.release(ref.Key)
	}
	e.reads, e.chains = r.Reads(), used
	if !reflect.DeepEqual(plan, e.plan) {
		e.plan = plan
		u.delta.Plans[id] = plan
	}
}

// keepLastGood leaves a client what it had of upstreams that are not known well enough now, and
// everything if the client itself is not. What is kept is still followed.
func keepLastGood(plan, old *Plan) {
	defer func() {
		if !plan.Complete() {
			plan.Needs = union(plan.Needs, old.Needs)
		}
	}()
	if plan.Unregistered != "" || plan.Hold != "" && len(plan.Upstreams) == 0 {
		plan.Upstreams = old.Upstreams
		if len(old.Upstreams) > 0 && old.Hold == "" {
			plan.Hold = ""
		}
		return
	}
	type id struct{ name, bind string }
	had := map[id][]Ref{}
	for i := range old.Upstreams {
		u := &old.Upstreams[i]
		had[id{u.Name, u.Bind}] = u.Resources
	}
	for i := range plan.Upstreams {
		u := &plan.Upstreams[i]
		if last := had[id{u.Name, u.Bind}]; u.Pending != "" && len(last) > 0 {
			u.Resources = last
			plan.Hold = ""
		}
	}
}

// chain returns the state of a chain, made now if it was not yet.
func (u *update) chain(key ChainKey) ChainState {
	if e, ok := u.chains[key]; ok {
		return e.state
	}
	e := &chainEntry{users: map[any]struct{}{}}
	u.chains[key] = e
	r := u.view.Read()
	e.state = makeChain(u.cfg, key, r, ChainState{})
	e.reads = r.Reads()
	u.counts.Chains++
	u.reread(key, nil, e.reads)
	return e.state
}

func (u *update) remakeChain(key ChainKey) {
	e := u.chains[key]
	r := u.view.Read()
	next, same := makeChain(u.cfg, key, r, e.state).same(e.state)
	u.counts.Chains++
	u.reread(key, e.reads, r.Reads())
	e.reads = r.Reads()
	if same {
		return
	}
	e.state = next
	for who := range e.users {
		switch who := who.(type) {
		case clientID:
			u.plans[string(who)] = struct{}{}
		case Key:
			u.products[who] = struct{}{}
		}
	}
}

// remake makes a product; one that comes out equal goes no further.
func (u *update) remake(key Key) {
	e := u.Cache.products[key]
	r := u.view.Read()
	value, known := u.value(key, r)
	u.counts.Products[key.Product()]++
	u.reread(key, e.reads, r.Reads())
	e.reads = r.Reads()
	if !known || e.value != nil && reflect.DeepEqual(e.value, value) {
		return
	}
	e.value = value
	u.delta.Products[key] = value
}

// value makes the value of a product; known is false while the facts do not suffice, and the product
// then stays as it is.
func (u *update) value(key Key, r *facts.Reader) (value any, known bool) {
	if ck, ok := chainOf(key); ok {
		state := u.chain(ck)
		u.chains[ck].users[key] = struct{}{}
		return makeRoutes(key, state), true
	}
	if k, ok := key.(EndpointSetKey); ok {
		return k.make(r), r.Known(k.Topic)
	}
	return key, true
}

// chainOf returns the chain that a product is made of.
func chainOf(key Key) (ChainKey, bool) {
	switch k := key.(type) {
	case RoutesKey:
		return k.Chain, true
	case ListenerKey:
		return k.Chain, k.Chain != ChainKey{}
	}
	return ChainKey{}, false
}
