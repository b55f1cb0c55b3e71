package snapshot

import (
	"fmt"
	"net"
	"reflect"
	"strconv"
	"time"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// UpstreamKey names the plan of an upstream by everything that goes into it, beside the facts. It is
// planned once for all clients that have it.
type UpstreamKey struct {
	Kind Kind
	// Reader is whose rights count.
	Reader string
	// Upstream is what the client wants, with what central configuration says of it.
	Upstream Upstream
	// Taken names another upstream of the client that has the same address, if one does.
	Taken string
}

// upstreamEntry is the plan of an upstream in the cache.
type upstreamEntry struct {
	key   UpstreamKey
	id    uint64
	plan  *UpstreamPlan
	reads []*fact
	chain *chainEntry
	lists map[*listEntry]struct{} // it is on

	version uint64 // another one whenever the plan is
}

func (e *upstreamEntry) stale(u *update) { u.staleUpstreams[e] = struct{}{} }

// upstream returns the plan of an upstream, made now if it was not yet.
func (u *update) upstream(key UpstreamKey) *upstreamEntry {
	e, ok := u.upstreams[key]
	if !ok {
		u.lastID++
		e = &upstreamEntry{key: key, id: u.lastID, lists: map[*listEntry]struct{}{}}
		u.upstreams[key] = e
		u.remakeUpstream(e)
	}
	return e
}

func (u *update) remakeUpstream(e *upstreamEntry) {
	r := u.view.Read()
	var used *chainEntry
	p := &planner{cfg: u.cfg, r: r, kind: e.key.Kind, reader: e.key.Reader, chains: func(key ChainKey) ChainState {
		used = u.chain(key)
		return used.state
	}}
	plan := p.upstream(e.key)
	u.counts.Upstreams++
	e.reads = u.reread(e, e.reads, r.Reads())
	u.useChain(e, e.chain, used)
	e.chain = used
	if e.plan != nil {
		keepLastGood(plan, e.plan)
		if reflect.DeepEqual(plan, e.plan) {
			return
		}
	}
	u.lastID++
	e.plan, e.version = plan, u.lastID
	for list := range e.lists {
		for client := range list.clients {
			u.loose[client] = struct{}{}
		}
	}
}

// keepLastGood leaves in a plan of an upstream that is not known well enough now what it had before,
// and goes on following that.
func keepLastGood(plan, last *UpstreamPlan) {
	if plan.Pending != "" && len(last.Resources) > 0 {
		plan.Resources = last.Resources
		plan.needs = union(plan.needs, last.needs)
	}
}

// planner makes one plan of an upstream.
type planner struct {
	cfg    Config
	r      *facts.Reader
	kind   Kind
	reader string
	chains func(ChainKey) ChainState
}

// upstream plans the listener, routes, clusters and endpoint sets of one upstream.
func (p *planner) upstream(k UpstreamKey) *UpstreamPlan {
	u := k.Upstream
	out := &UpstreamPlan{Name: u.EnvoyID(), Bind: u.bind()}
	switch {
	case u.unsupported != "":
		out.Missing = []string{u.unsupported}
		return out
	case k.Taken != "":
		out.Missing = []string{fmt.Sprintf("%s is already the address of upstream %s: give it another port", out.Bind, k.Taken)}
		return out
	}
	if !p.mayRead(u.Service, out) {
		return out
	}
	key := ChainKey{
		Service: u.Service, Datacenter: u.Datacenter,
		Overrides: chain.Overrides{
			Protocol:       u.Config.Protocol,
			ConnectTimeout: time.Duration(u.Config.ConnectTimeoutMs) * time.Millisecond,
			MeshGateway:    u.Config.MeshGateway,
		},
	}
	if key.Datacenter == "" {
		key.Datacenter = p.cfg.Datacenter
	}
	state := p.chains(key)
	out.Pending, out.Problems = state.Pending, state.Problems
	if out.Pending != "" {
		return out
	}
	t := &targets{planner: p, key: key, config: u.Config, out: out}
	if state.Chain != nil {
		t.plan(state.Chain)
	}
	out.needs = union(out.needs)
	if out.Pending != "" || t.barred {
		out.Resources = nil
		return out
	}
	out.Resources = append(out.Resources, entrance(u, key, state.Protocol)...)
	return out
}

// mayRead reports whether the client may read a service. When not, the plan says why: the upstream is
// left out if the client must not, and pending while that is not known.
func (p *planner) mayRead(service string, out *UpstreamPlan) bool {
	if p.reader == "" {
		return true
	}
	topic := facts.Rights(p.reader, service)
	out.needs = append(out.needs, topic)
	switch p.r.Right(p.reader, service) {
	case facts.Present, facts.Suspect:
		return true
	case facts.Absent:
		out.Missing = append(out.Missing, fmt.Sprintf("the client has no service:read on %q", service))
	case facts.Unknown:
		out.Pending = fmt.Sprintf("whether the client has service:read on %q: %s", service, p.r.Why(facts.ID{Topic: topic}))
	}
	return false
}

// entrance is where the client's traffic to an upstream enters: the listener and its routes.
func entrance(u Upstream, key ChainKey, protocol string) []Ref {
	id := u.EnvoyID()
	l := ListenerKey{
		EnvoyID: id, Address: u.BindAddress, Port: u.BindPort, Protocol: protocol,
		StatPrefix: fmt.Sprintf("upstream.%s.default.default.%s", u.Service, key.Datacenter),
	}
	if !chain.IsLayer7(protocol) {
		l.Chain = key
	}
	refs := []Ref{{Name: ListenerName(id, u.BindAddress, u.BindPort), Key: l}}
	if chain.IsLayer7(protocol) {
		refs = append(refs, Ref{Name: id, Key: RoutesKey{Name: id, Chain: key}})
	}
	return refs
}

// bind is the address that the client's proxy listens at for the upstream.
func (u Upstream) bind() string { return net.JoinHostPort(u.BindAddress, strconv.Itoa(u.BindPort)) }
