package snapshot

import (
	"reflect"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// productEntry is a product in the cache.
type productEntry struct {
	key   Key
	value any // nil until the facts suffice
	reads []*fact
	chain *chainEntry
	refs  int // plans that have it

	// flying says that a [Job] is at work on it, again that the facts changed meanwhile.
	flying, again bool
}

func (e *productEntry) stale(u *update) { u.staleProducts[e] = struct{}{} }

// maker is a key whose product is made of facts at once, without a job.
type maker interface {
	// make returns the product; known is false while the facts do not suffice.
	make(r *facts.Reader) (product any, known bool)
}

// chainOf returns the chain that a product is made of.
func chainOf(key Key) (ChainKey, bool) {
	switch k := key.(type) {
	case RoutesKey:
		return k.Chain, true
	case GRPCRoutesKey:
		return k.Chain, true
	case ListenerKey:
		return k.Chain, k.Chain != ChainKey{}
	}
	return ChainKey{}, false
}

// remake makes a product, or leaves an endpoint set that there was before to a job.
func (u *update) remake(e *productEntry) {
	if key, ok := e.key.(EndpointSetKey); ok {
		u.remakeEndpoints(e, key)
		return
	}
	var value any = e.key
	if m, ok := e.key.(maker); ok {
		r := u.view.Read()
		made, known := m.make(r)
		e.reads = u.reread(e, e.reads, r.Reads())
		if !known {
			return // what there was before stays
		}
		value = made
	} else if ck, ok := chainOf(e.key); ok {
		next := u.chain(ck)
		u.useChain(e, e.chain, next)
		e.chain = next
		value = makeRoutes(e.key, next.state)
	}
	u.counts.Products[e.key.Product()]++
	if e.value != nil && reflect.DeepEqual(e.value, value) {
		return
	}
	e.value = value
	u.delta.Products[e.key] = value
}

func (u *update) remakeEndpoints(e *productEntry, key EndpointSetKey) {
	switch {
	case e.flying:
		e.again = true
	case e.value == nil:
		u.Commit((&Job{entry: e, key: key, view: u.view}).Make(), &u.delta)
	default:
		u.jobs = append(u.jobs, u.job(e, key))
	}
}

// Job is an endpoint set that is to be made again.
type Job struct {
	entry *productEntry
	key   EndpointSetKey
	view  facts.View
	last  EndpointSet
	had   bool // there was one before: last
}

func (c *Cache) job(e *productEntry, key EndpointSetKey) *Job {
	e.flying = true
	last, had := e.value.(EndpointSet)
	return &Job{entry: e, key: key, view: c.view, last: last, had: had}
}

// large is the number of endpoints of a set from which on making it takes milliseconds.
const large = 1000

// Large reports whether the job may take milliseconds, so that others should not wait for it.
func (j *Job) Large() bool { return len(j.last.Endpoints) >= large }

// Key is what is to be made.
func (j *Job) Key() Key { return j.key }

// Made is the outcome of a [Job].
type Made struct {
	entry *productEntry
	value EndpointSet
	reads map[facts.ID]struct{}
	same  bool
}

// Value returns the endpoint set, and whether it differs from the one before.
func (m Made) Value() (EndpointSet, bool) { return m.value, !m.same }

// Make makes the endpoint set. It is safe to call beside anything else.
func (j *Job) Make() Made {
	r := j.view.Read()
	m := Made{entry: j.entry, value: j.key.endpoints(r)}
	known := j.key.known(r) // what is not known stays as it is
	m.same = !known || j.had && m.value.Equal(j.last)
	m.reads = r.Reads()
	return m
}

// Commit takes in the outcome of a job, adds it to the delta, and returns another job when facts
// changed meanwhile.
func (c *Cache) Commit(m Made, d *Delta) *Job {
	e := m.entry
	if c.products[e.key] != e {
		return nil // nobody has it any more
	}
	e.reads = c.reread(e, e.reads, m.reads)
	c.counts.Products[e.key.Product()]++
	if !m.same {
		e.value = m.value
		d.Products[e.key] = m.value
	}
	again := e.again
	e.flying, e.again = false, false
	if !again {
		return nil
	}
	return c.job(e, e.key.(EndpointSetKey))
}
