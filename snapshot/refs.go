package snapshot

import "github.com/catenary-mesh/catenary/internal/facts"

// fact is what something was made of, in the reverse index. There is one for each ID, so that what was
// read takes a pointer.
type fact struct {
	id      facts.ID
	readers map[reader]struct{}
}

// reread returns what a reader has read now, and replaces what it had read in the reverse index.
func (c *Cache) reread(who reader, old []*fact, read map[facts.ID]struct{}) []*fact {
	var next []*fact
	if len(read) > 0 {
		next = make([]*fact, 0, len(read))
	}
	for id := range read {
		f, ok := c.facts[id]
		if !ok {
			f = &fact{id: id, readers: map[reader]struct{}{}}
			c.facts[id] = f
		}
		f.readers[who] = struct{}{}
		next = append(next, f)
	}
	for _, f := range old {
		if _, still := read[f.id]; still {
			continue
		}
		delete(f.readers, who)
		if len(f.readers) == 0 {
			delete(c.facts, f.id)
		}
	}
	return next
}

// acquire counts the use of a selection, and with the first one that of its products.
func (u *update) acquire(e *selectionEntry) {
	if e.refs++; e.refs > 1 {
		return
	}
	for _, ref := range e.Resources() {
		p, ok := u.products[ref.Key]
		if !ok {
			p = &productEntry{key: ref.Key}
			u.products[ref.Key] = p
			u.staleProducts[p] = struct{}{}
		}
		p.refs++
	}
}

func (u *update) release(e *selectionEntry) {
	if e.refs--; e.refs > 0 {
		return
	}
	if u.selections[e.key] == e {
		delete(u.selections, e.key)
	}
	for _, ref := range e.Resources() {
		p := u.products[ref.Key]
		p.refs--
		u.unusedProducts[p] = struct{}{}
	}
}

// use replaces the list of parts of a client.
func (u *update) use(e *clientEntry, next *listEntry) {
	if next == e.list {
		return
	}
	next.clients[e] = struct{}{}
	u.unuse(e)
	e.list = next
}

// unuse takes a client's list away from it.
func (u *update) unuse(e *clientEntry) {
	l := e.list
	delete(l.clients, e)
	if len(l.clients) > 0 || u.lists[l.key] != l {
		return
	}
	delete(u.lists, l.key)
	for _, up := range l.parts {
		delete(up.lists, l)
		u.unusedParts[up] = struct{}{}
	}
}

// useChain replaces the chain that a reader is made of.
func (u *update) useChain(who reader, old, next *chainEntry) {
	if old == next {
		return
	}
	if next != nil {
		next.users[who] = struct{}{}
	}
	if old != nil {
		delete(old.users, who)
		u.unusedChains[old] = struct{}{}
	}
}

func (u *update) sweepProducts() {
	for e := range u.unusedProducts {
		if e.refs > 0 {
			continue
		}
		u.reread(e, e.reads, nil)
		u.useChain(e, e.chain, nil)
		delete(u.products, e.key)
		delete(u.staleProducts, e)
		u.delta.Dropped = append(u.delta.Dropped, e.key)
	}
}

func (u *update) sweepParts() {
	for e := range u.unusedParts {
		if len(e.lists) > 0 {
			continue
		}
		u.reread(e, e.reads, nil)
		u.useChain(e, e.chain, nil)
		delete(u.parts, e.key)
	}
}

func (u *update) sweepChains() {
	for e := range u.unusedChains {
		if len(e.users) > 0 {
			continue
		}
		u.reread(e, e.reads, nil)
		delete(u.chains, e.key)
	}
}
