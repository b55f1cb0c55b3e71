package snapshot

import (
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// UpstreamKey is the part of a plan that an upstream makes up.
type UpstreamKey struct {
	Kind Kind
	// Secure clients dial mesh targets with their identity: without it they would get plaintext.
	Secure bool
	// Reader is whose rights count.
	Reader string
	// Upstream is what the client wants, with what central configuration says of it.
	Upstream Upstream
	// Taken names another upstream of the client that has the same address, if one does.
	Taken string
}

// plan plans the listener, routes, clusters and endpoint sets of one upstream.
func (k UpstreamKey) plan(p *planner) *Part {
	u := k.Upstream
	out := &Part{Name: u.EnvoyID(), Bind: u.bind()}
	switch {
	case u.unsupported != "":
		out.Missing = []string{u.unsupported}
		return out
	case k.Taken != "":
		out.Missing = []string{fmt.Sprintf("%s is already the address of upstream %s: give it another port", out.Bind, k.Taken)}
		return out
	}
	if !p.mayRead(k.Reader, u.Service, out) {
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
	t := &targets{planner: p, upstream: k, key: key, out: out}
	if k.Secure {
		t.tls = outgoing(p.r)
		if _, state := p.r.View.Entry(chain.KindMesh, chain.MeshName); state == facts.Unknown {
			out.Pending = p.r.Why(facts.ID{Topic: facts.Entries(chain.KindMesh)})
			return out
		}
	}
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
func (p *planner) mayRead(reader, service string, out *Part) bool {
	if reader == "" {
		return true
	}
	topic := facts.Rights(reader, service)
	out.needs = append(out.needs, topic)
	switch p.r.Right(reader, service) {
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
