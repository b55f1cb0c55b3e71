package snapshot

import "github.com/catenary-mesh/catenary/internal/facts"

// acquire counts a client's use of a product, and makes it if it is new.
func (u *update) acquire(key Key) {
	e, ok := u.Cache.products[key]
	if !ok {
		e = &productEntry{}
		u.Cache.products[key] = e
		u.products[key] = struct{}{}
	}
	e.refs++
}

func (u *update) release(key Key) {
	u.Cache.products[key].refs--
	u.released[key] = struct{}{}
}

// reread replaces what a reader has read in the reverse index.
func (u *update) reread(who any, old, next map[facts.ID]struct{}) {
	for id := range next {
		if u.readers[id] == nil {
			u.readers[id] = map[any]struct{}{}
		}
		u.readers[id][who] = struct{}{}
	}
	for id := range old {
		if _, still := next[id]; still {
			continue
		}
		delete(u.readers[id], who)
		if len(u.readers[id]) == 0 {
			delete(u.readers, id)
		}
	}
}

// rechain replaces the chains that a client uses.
func (u *update) rechain(who clientID, old, next map[ChainKey]struct{}) {
	for key := range next {
		u.chains[key].users[who] = struct{}{}
	}
	for key := range old {
		if _, still := next[key]; !still {
			u.unuse(key, who)
		}
	}
}

func (u *update) unuse(key ChainKey, who any) {
	if e, ok := u.chains[key]; ok {
		delete(e.users, who)
		u.loose[key] = struct{}{}
	}
}

// sweepChains forgets the chains that nothing uses any more.
func (u *update) sweepChains() {
	for key := range u.loose {
		if e, ok := u.chains[key]; ok && len(e.users) == 0 {
			u.reread(key, e.reads, nil)
			delete(u.chains, key)
		}
	}
}

// Counts returns what was done since the start.
func (c *Cache) Counts() Counts {
	products := make(map[string]int, len(c.counts.Products))
	for k, n := range c.counts.Products {
		products[k] = n
	}
	return Counts{Plans: c.counts.Plans, Chains: c.counts.Chains, Products: products}
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
