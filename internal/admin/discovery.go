package admin

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/chain/explain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/snapshot"
)

// Place is where the control plane is.
type Place struct{ Datacenter, TrustDomain string }

// Discovery compiles chains as the entries are now, and waits for them to change. It is safe for
// concurrent use.
type Discovery struct {
	store *facts.Store
	place func() (place Place, unknown string)

	mu   sync.Mutex // guards all below, and keeps indexes in the order of the facts
	last uint64
	seen map[digest]indexed
}

type digest = [sha256.Size]byte

// indexed is the content that a chain had when it was last looked at, and its index.
type indexed struct {
	content digest
	index   uint64
}

// maxSeen bounds how many chains have their content remembered. One that is forgotten gets a new index
// when it is asked for again: its reader then reads once in vain.
const maxSeen = 4096

// NewDiscovery returns a discovery over a store. Place says where the control plane is, or why that is
// not known yet.
func NewDiscovery(store *facts.Store, place func() (Place, string)) *Discovery {
	return &Discovery{
		store: store, place: place, seen: map[digest]indexed{},
		// Indexes go on from one process to the next, so that they do not go back for a reader; there
		// are fewer changes than seconds.
		last: uint64(max(time.Now().Unix(), 1)),
	}
}

// Discovered is a compiled chain, or why there is none.
type Discovered struct {
	// Chain is nil when there is none.
	Chain *chain.Chain
	// Index changes exactly when the content of the chain does; 0 without a chain.
	Index uint64
	// Problems say why the entries do not compile.
	Problems []chain.Problem
	// Unknown says which fact is not known yet.
	Unknown string

	req   chain.Request
	facts *facts.Reader
}

// Chain compiles a chain. An empty datacenter is the control plane's own.
func (d *Discovery) Chain(key snapshot.ChainKey) Discovered {
	place, unknown := d.place()
	if unknown != "" {
		return Discovered{Unknown: unknown}
	}
	if key.Datacenter == "" {
		key.Datacenter = place.Datacenter
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	out := Discovered{facts: d.store.View().Read(), req: chain.Request{
		Service: key.Service, Datacenter: key.Datacenter, TrustDomain: place.TrustDomain, Overrides: key.Overrides,
	}}
	out.Chain, out.Problems = chain.Compile(out.req, out.facts)
	if missing := out.facts.Unknown(); len(missing) > 0 {
		return Discovered{Unknown: out.facts.Why(missing[0]), facts: out.facts}
	}
	if out.Chain != nil {
		out.Index = d.index(key, out.Chain)
	}
	return out
}

// Explain says how the chain came about; nil when there is none.
func (d *Discovered) Explain() *explain.Explanation {
	if d.Chain == nil {
		return nil
	}
	return explain.Explain(d.req, d.Chain, d.facts)
}

// index returns the index of a chain with this content. The caller holds the lock.
func (d *Discovery) index(key snapshot.ChainKey, c *chain.Chain) uint64 {
	text, err := json.Marshal(c)
	if err != nil { // it then cannot be answered either
		text = nil
	}
	id, content := sha256.Sum256(fmt.Appendf(nil, "%q", key)), sha256.Sum256(text)
	old, known := d.seen[id]
	if known && old.content == content {
		return old.index
	}
	if !known && len(d.seen) >= maxSeen {
		for any := range d.seen {
			delete(d.seen, any)
			break
		}
	}
	d.last++
	d.seen[id] = indexed{content, d.last}
	return d.last
}

// Wait compiles a chain once its index is another than the given one, or the context ends. Where there
// is no chain it does not wait.
func (d *Discovery) Wait(ctx context.Context, key snapshot.ChainKey, index uint64) Discovered {
	sub := d.store.Subscribe()
	defer sub.Close()
	for {
		found := d.Chain(key)
		if found.Index != index || found.Chain == nil || !touched(ctx, sub, found.facts.Reads()) {
			return found
		}
	}
}

// touched waits for a change of one of the facts; false when the context ends first.
func touched(ctx context.Context, sub *facts.Subscription, reads map[facts.ID]struct{}) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-sub.Bell():
		}
		_, changed := sub.Drain()
		for _, id := range changed {
			if _, ok := reads[id]; ok {
				return true
			}
		}
	}
}
