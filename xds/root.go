package xds

import (
	"encoding/binary"
	"slices"
	"sync"

	iradix "github.com/hashicorp/go-immutable-radix/v2"

	"github.com/catenary-mesh/catenary/snapshot"
	"github.com/catenary-mesh/catenary/xds/session"
)

// variantID names a variant: one product under one name. Several variants can have the same type and
// name; a client has at most one of them.
type variantID uint64

func (id variantID) key() []byte { return binary.BigEndian.AppendUint64(nil, uint64(id)) }

// root is all that is published, at one moment. It is immutable: a stream that works with one root
// sees clusters, endpoints, listeners and routes that belong together.
type root struct {
	resources *iradix.Tree[*session.Resource] // by variantID
	seats     *iradix.Tree[seat]              // by stream ID
}

func newRoot() *root {
	return &root{resources: iradix.New[*session.Resource](), seats: iradix.New[seat]()}
}

// seat is what one client gets.
type seat struct {
	plan    *snapshot.Plan
	listing *listing
}

// listing is a selection, arranged for look-up by type and name. All clients of the selection share it.
type listing struct {
	// set when it is made
	id        string // as whose its needs are counted
	selection *snapshot.Selection
	byURL     map[string]map[string]variantID
	names     map[string][]string                       // by type URL, sorted
	sets      func() map[string]snapshot.EndpointSetKey // by name; made when first needed

	// the publisher's, under its lock
	clients int
	streams map[*stream]struct{}
	needed  bool // its needs are counted
}

func newListing(id string, sel *snapshot.Selection, variants map[snapshot.Ref]*variant) *listing {
	v := &listing{
		id: id, selection: sel, byURL: map[string]map[string]variantID{}, names: map[string][]string{},
		sets: sync.OnceValue(func() map[string]snapshot.EndpointSetKey { return setsOf(sel) }), streams: map[*stream]struct{}{},
	}
	for _, ref := range sel.Resources() {
		url := typeOf(ref.Key).URL
		if v.byURL[url] == nil {
			v.byURL[url] = map[string]variantID{}
		}
		v.byURL[url][ref.Name] = variants[ref].id
		v.names[url] = append(v.names[url], ref.Name)
	}
	for _, names := range v.names {
		slices.Sort(names)
	}
	return v
}

// offer is what a client gets of a root. It implements [session.Offer].
type offer struct {
	root *root
	seat
}

// Lookup implements [session.Offer]. A name outside a complete plan is absent; beside an incomplete
// one it may yet come.
func (o offer) Lookup(t *session.Type, name string) (*session.Resource, session.State) {
	id, ok := o.listing.byURL[t.URL][name]
	if !ok {
		if o.Complete() {
			return nil, session.Absent
		}
		return nil, session.Unknown
	}
	if r, ok := o.root.resources.Get(id.key()); ok {
		return r, session.Present
	}
	return nil, session.Unknown
}

// Names implements [session.Offer].
func (o offer) Names(t *session.Type) []string { return o.listing.names[t.URL] }

// Complete implements [session.Offer].
func (o offer) Complete() bool { return o.plan.Complete() }
