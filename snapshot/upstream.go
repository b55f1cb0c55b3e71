package snapshot

import (
	"fmt"
	"time"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// UpstreamKey is the part of a plan that an upstream makes up.
type UpstreamKey struct {
	Kind Kind
	// Reader is whose rights count.
	Reader string
	// Upstream is what the client wants, with what central configuration says of it.
	Upstream Upstream
	// Settings are those of the client for all its upstreams.
	Settings Settings
	// Asked is the name under which a gRPC client asks for it; empty for proxies. Dialect is the client's.
	Asked   string
	Dialect Dialect
	// Taken names another upstream of the client that has the same address, if one does.
	Taken string
}

// plan plans the listener, routes, clusters and endpoint sets of one upstream.
func (k UpstreamKey) plan(p *planner) *Part {
	u := k.Upstream
	out := &Part{Name: u.EnvoyID(), Bind: u.bind().String(), Notes: u.Config.notes()}
	switch {
	case u.unsupported != "":
		out.Missing = []string{u.unsupported}
		return out
	case k.Taken != "":
		out.Missing = []string{fmt.Sprintf("%s is already the address of upstream %s: give it another", out.Bind, k.Taken)}
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
	mesh := p.mesh(k, out)
	if k.Kind == Mesh && key.Overrides.Protocol == "" {
		key.Overrides.Protocol = relabelled(p.r, u.Service)
	}
	state := p.chains(key)
	if out.Pending != "" {
		return out
	}
	out.Pending, out.Problems = state.Pending, state.Problems
	if out.Pending != "" {
		return out
	}
	t := &targets{planner: p, upstream: k, key: key, out: out, tls: outgoing(mesh)}
	if state.Chain != nil {
		t.plan(state.Chain)
	}
	out.needs = union(out.needs)
	if out.Pending != "" || t.barred {
		out.Resources = nil
		return out
	}
	if k.Asked != "" {
		t.answer(state.Chain)
		return out
	}
	out.Resources = append(out.Resources, k.entrance(key, state.Protocol, mesh, accessLogs(p.r))...)
	return out
}

// mesh returns the mesh entry for a client that it concerns, or one that says nothing. While it is not known
// the upstream waits: what it says of TLS must not be served late.
func (p *planner) mesh(k UpstreamKey, out *Part) *chain.Mesh {
	if k.Kind != Mesh {
		return &chain.Mesh{}
	}
	entry := p.r.Entry(chain.KindMesh, chain.MeshName)
	if _, state := p.r.View.Entry(chain.KindMesh, chain.MeshName); state == facts.Unknown {
		out.Pending = p.r.Why(facts.ID{Topic: facts.Entries(chain.KindMesh)})
	}
	if mesh, ok := entry.(*chain.Mesh); ok {
		return mesh
	}
	return &chain.Mesh{}
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
func (k UpstreamKey) entrance(key ChainKey, protocol string, mesh *chain.Mesh, logs chain.AccessLogs) []Ref {
	u := k.Upstream
	id := u.EnvoyID()
	l := ListenerKey{
		EnvoyID: id, Bind: u.bind(), ExactBalance: u.Config.ExactBalance, Protocol: protocol, AccessLogs: logs,
		StatPrefix: fmt.Sprintf("upstream.%s.default.default.%s", u.Service, key.Datacenter),
	}
	if !chain.IsLayer7(protocol) {
		l.Chain = key
		return []Ref{{Name: ListenerName(id, l.Bind), Key: l}}
	}
	l.Settings = k.Settings
	return []Ref{
		{Name: ListenerName(id, l.Bind), Key: l},
		{Name: id, Key: RoutesKey{Name: id, Chain: key, ValidateClusters: mesh.ValidateClusters}},
	}
}

// bind is the address that the client's proxy listens at for the upstream.
func (u Upstream) bind() Bind {
	return Bind{Address: u.BindAddress, Port: u.BindPort, SocketPath: u.SocketPath, SocketMode: u.SocketMode}
}
