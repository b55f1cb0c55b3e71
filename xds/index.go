package xds

import (
	"strconv"

	"github.com/catenary-mesh/catenary/snapshot"
	"github.com/catenary-mesh/catenary/xds/session"
)

// variant is a published product under a name, and the listings that have it.
type variant struct {
	id       variantID
	key      []byte // its ID as a key of the root
	ref      snapshot.Ref
	typ      *session.Type
	listings map[*listing]struct{}
}

// listingOf returns the listing of a selection, and counts one client more that has it. What gets a name for the
// first time is due for encoding under it. The caller holds the lock.
func (p *publisher) listingOf(sel *snapshot.Selection, due map[snapshot.Key]any) *listing {
	v, ok := p.listings[sel]
	if !ok {
		for _, ref := range sel.Resources() {
			p.variant(ref, due)
		}
		p.lastID++
		v = newListing("listing "+strconv.FormatUint(p.lastID, 10), sel, p.variants)
		for _, ref := range sel.Resources() {
			p.variants[ref].listings[v] = struct{}{}
		}
		p.listings[sel] = v
	}
	v.clients++
	return v
}

// variant makes sure that a product has the name.
func (p *publisher) variant(ref snapshot.Ref, due map[snapshot.Key]any) {
	if p.variants[ref] != nil {
		return
	}
	if product, made := p.cache.Product(ref.Key); made {
		due[ref.Key] = product
	}
	p.lastID++
	id := variantID(p.lastID)
	v := &variant{id: id, key: id.key(), ref: ref, typ: typeOf(ref.Key), listings: map[*listing]struct{}{}}
	p.variants[ref] = v
	if p.byKey[ref.Key] == nil {
		p.byKey[ref.Key] = map[*variant]struct{}{}
	}
	p.byKey[ref.Key][v] = struct{}{}
}

// unlist counts one client less that has a listing, and forgets the listing with its last.
func (p *publisher) unlist(v *listing) {
	if v.clients--; v.clients > 0 {
		return
	}
	for _, ref := range v.selection.Resources() {
		if variant := p.variants[ref]; variant != nil {
			delete(variant.listings, v)
			if len(variant.listings) == 0 {
				p.unlisted = append(p.unlisted, variant)
			}
		}
	}
	delete(p.listings, v.selection)
}

// need counts what a listing needs while some stream has it. The caller holds the lock.
func (p *publisher) need(l *listing) {
	needed := len(l.streams) > 0
	switch {
	case needed && !l.needed:
		p.cfg.Store.Need(l.id, l.selection.Needs...)
	case !needed && l.needed:
		p.cfg.Store.Need(l.id)
	}
	l.needed = needed
}

// sweep forgets the variants of dropped products, and those that no listing has: a product goes on being
// served under its other names.
func (p *publisher) sweep(dropped []snapshot.Key, forget func(*variant)) {
	for _, v := range p.unlisted {
		if len(v.listings) == 0 && p.variants[v.ref] == v {
			forget(v)
			delete(p.variants, v.ref)
			delete(p.byKey[v.ref.Key], v)
		}
	}
	p.unlisted = nil
	for _, key := range dropped {
		for v := range p.byKey[key] {
			forget(v)
			delete(p.variants, v.ref)
		}
		delete(p.byKey, key)
	}
}

// notes are whom to tell of what was published.
type notes struct {
	changed   []change
	replanned []*stream
}

// change is a resource that is new, and a stream that has it.
type change struct {
	stream *stream
	dirt   dirt
}

func (n *notes) add(v *variant) {
	for listing := range v.listings {
		for st := range listing.streams {
			n.changed = append(n.changed, change{st, dirt{v.typ, v.ref.Name}})
		}
	}
}

// marks tells the streams. It waits for none of them.
func (n *notes) marks() {
	for _, c := range n.changed {
		c.stream.mark(c.dirt)
	}
	for _, st := range n.replanned {
		st.wake()
	}
}
