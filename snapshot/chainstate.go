package snapshot

import (
	"reflect"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// ChainState is what is known of a chain: the product of a [ChainKey].
type ChainState struct {
	// Chain is the compiled chain, or the last one that compiled; nil when none ever did.
	Chain *chain.Chain
	// Protocol is the chain's, also where Chain is nil.
	Protocol string
	// Problems are what the entries have wrong now.
	Problems []chain.Problem
	// LastGood reports that Chain is not what the entries say now, because they do not compile.
	LastGood bool
	// Pending says which entry must be known before the chain can be compiled.
	Pending string
}

// chainEntry is a chain in the cache.
type chainEntry struct {
	key   ChainKey
	state ChainState
	reads []*fact
	users map[reader]struct{} // plans of upstreams, and products
}

func (e *chainEntry) stale(u *update) { u.staleChains[e] = struct{}{} }

// chain returns a chain, made now if it was not yet.
func (u *update) chain(key ChainKey) *chainEntry {
	e, ok := u.chains[key]
	if !ok {
		e = &chainEntry{key: key, users: map[reader]struct{}{}}
		u.chains[key] = e
		u.unusedChains[e] = struct{}{} // goes unless somebody comes to use it
		u.remakeChain(e)
	}
	return e
}

func (u *update) remakeChain(e *chainEntry) {
	r := u.view.Read()
	next, same := makeChain(u.cfg, e.key, r, e.state).same(e.state)
	u.counts.Chains++
	e.reads = u.reread(e, e.reads, r.Reads())
	e.state = next
	if same {
		return
	}
	for who := range e.users {
		who.stale(u)
	}
}

// makeChain compiles a chain. When that fails the chain of prev stays.
func makeChain(cfg Config, key ChainKey, r *facts.Reader, prev ChainState) ChainState {
	req := chain.Request{
		Service: key.Service, Datacenter: key.Datacenter,
		TrustDomain: cfg.TrustDomain, Overrides: key.Overrides,
	}
	compiled, problems := chain.Compile(req, r)
	if unknown := r.Unknown(); len(unknown) > 0 {
		prev.Pending = r.Why(unknown[0])
		return prev
	}
	if compiled != nil {
		return ChainState{Chain: compiled, Protocol: compiled.Protocol, Problems: problems}
	}
	next := ChainState{Chain: prev.Chain, Problems: problems, LastGood: prev.Chain != nil}
	if prev.Chain != nil {
		next.Protocol = prev.Chain.Protocol
	} else if plain, _ := chain.Compile(req, defaultsOnly{r}); plain != nil {
		next.Protocol = plain.Protocol
	}
	return next
}

// same reports whether two states lead to the same products, keeping the older chain where the
// newer one is equal, so that equality is decided once.
func (s ChainState) same(prev ChainState) (ChainState, bool) {
	if reflect.DeepEqual(s.Chain, prev.Chain) {
		s.Chain = prev.Chain
	}
	return s, s.Chain == prev.Chain && s.Protocol == prev.Protocol && s.LastGood == prev.LastGood &&
		s.Pending == prev.Pending && reflect.DeepEqual(s.Problems, prev.Problems)
}

// defaultsOnly hides the entries that can keep a chain from compiling.
type defaultsOnly struct{ chain.Entries }

func (d defaultsOnly) Entry(kind chain.Kind, name string) chain.Entry {
	switch kind {
	case chain.KindProxyDefaults, chain.KindServiceDefaults:
		return d.Entries.Entry(kind, name)
	default:
		return nil
	}
}

// Routes is the product of a [RoutesKey] and of the [ListenerKey] of a protocol below layer 7: where
// the traffic of an upstream goes.
type Routes struct {
	Key Key
	// Chain is nil when none ever compiled; Problem then says why.
	Chain   *chain.Chain
	Problem string
}

func makeRoutes(key Key, state ChainState) Routes {
	out := Routes{Key: key, Chain: state.Chain}
	if out.Chain == nil && len(state.Problems) > 0 {
		out.Problem = state.Problems[0].Message
	}
	return out
}
