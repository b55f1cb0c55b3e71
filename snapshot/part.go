package snapshot

import (
	"reflect"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// PartKey names a part of a plan by everything that goes into it, beside the facts. Keys are comparable: a
// part is planned once for all clients that have it.
type PartKey interface {
	plan(p *planner) *Part
}

// planner is what a part is planned with.
type planner struct {
	cfg    Config
	r      *facts.Reader
	chains func(ChainKey) ChainState
}

// partEntry is a part in the cache.
type partEntry struct {
	key   PartKey
	id    uint64
	part  *Part
	reads []*fact
	chain *chainEntry
	lists map[*listEntry]struct{} // it is on

	version uint64 // another one whenever the part is
}

func (e *partEntry) stale(u *update) { u.staleParts[e] = struct{}{} }

// part returns a part, planned now if it was not yet.
func (u *update) part(key PartKey) *partEntry {
	e, ok := u.parts[key]
	if !ok {
		u.lastID++
		e = &partEntry{key: key, id: u.lastID, lists: map[*listEntry]struct{}{}}
		u.parts[key] = e
		u.remakePart(e)
	}
	return e
}

func (u *update) remakePart(e *partEntry) {
	r := u.view.Read()
	var used *chainEntry
	part := e.key.plan(&planner{cfg: u.cfg, r: r, chains: func(key ChainKey) ChainState {
		used = u.chain(key)
		return used.state
	}})
	u.counts.Parts++
	e.reads = u.reread(e, e.reads, r.Reads())
	u.useChain(e, e.chain, used)
	e.chain = used
	if e.part != nil {
		keepLastGood(part, e.part)
		if reflect.DeepEqual(part, e.part) {
			return
		}
	}
	u.lastID++
	e.part, e.version = part, u.lastID
	for list := range e.lists {
		for client := range list.clients {
			u.loose[client] = struct{}{}
		}
	}
}

// keepLastGood leaves in a part of which nothing better can be served now what it had before, and goes on
// following that.
func keepLastGood(part, last *Part) {
	if part.kept() && len(last.Resources) > 0 {
		part.Resources = last.Resources
		part.needs = union(part.needs, last.needs)
	}
}
