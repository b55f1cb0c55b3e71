package snapshot

import (
	"fmt"
	"strings"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// AskedKey is the part of a plan that a name makes up which a gRPC client asks for.
type AskedKey struct {
	// Upstream is what the name stands for.
	Upstream UpstreamKey
}

// plan plans what an upstream needs. A client that must not have it is told at once that no call can succeed:
// of a name that is not there it would hear nothing for the time that it waits.
func (k AskedKey) plan(p *planner) *Part {
	out := k.Upstream.plan(p)
	out.Name, out.Bind = k.Upstream.Asked, ""
	if out.Pending == "" && len(out.Resources) == 0 {
		out.Resources = []Ref{noService(k.Upstream.Asked, k.Upstream.Dialect)}
	}
	return out
}

// RefusedKey is the part of a plan that a name makes up which stands for no service.
type RefusedKey struct {
	Name, Reason string
	Dialect      Dialect
}

func (k RefusedKey) plan(*planner) *Part {
	return &Part{
		Name: k.Name, Missing: []string{"no service can have this name: " + k.Reason},
		Resources: []Ref{noService(k.Name, k.Dialect)},
	}
}

// noService has all calls to a name fail at once.
func noService(name string, d Dialect) Ref {
	return Ref{Name: name, Key: APIListenerKey{Name: name, Unhosted: d.unhosted()}}
}

// asked lists the parts that the names make up which a client asks for.
func (s *selector) asked(c Client) []PartKey {
	keys := make([]PartKey, 0, len(c.Names))
	central := centralOf(s.r, s.kind, c.Service)
	for _, name := range c.Names {
		if address, ok := strings.CutPrefix(name, ServerListener); ok {
			keys = append(keys, serving(c, name, address))
			continue
		}
		u, err := parseAsked(name)
		if err != nil {
			keys = append(keys, RefusedKey{Name: name, Reason: err.Error(), Dialect: c.Dialect})
			continue
		}
		if u.Datacenter == s.cfg.Datacenter {
			u.Datacenter = ""
		}
		u.Config = central.upstream(u, "")
		keys = append(keys, AskedKey{UpstreamKey{
			Kind: s.kind, Reader: c.Reader, Upstream: u, Dialect: c.Dialect, Asked: name,
		}})
	}
	return keys
}

// answer adds what the client asked for by name: a listener of that name, and routes that all names of the
// upstream share.
func (t *targets) answer(c *chain.Chain) {
	routes := t.upstream.Upstream.EnvoyID()
	t.add(t.upstream.Asked, APIListenerKey{Name: t.upstream.Asked, Routes: routes})
	t.add(routes, GRPCRoutesKey{Name: routes, Chain: t.key, Unhosted: t.upstream.Dialect.unhosted()})
	if c == nil {
		return
	}
	_, notes := GRPCRoutes(c)
	for _, text := range notes {
		t.note(text)
	}
	t.noteLimits()
}

// noteLimits says what of the upstream's configuration such a client cannot do.
func (t *targets) noteLimits() {
	l, o := t.upstream.Upstream.Config.Limits, t.upstream.Upstream.Config.Outlier
	if l.MaxConnections.Set || l.MaxPendingRequests.Set {
		t.note("max_connections and max_pending_requests have no effect: gRPC clients bound max_concurrent_requests only")
	}
	if o.MaxFailures > 0 || o.EnforcingConsecutive5xx.Set {
		t.note("gRPC clients count no consecutive failures: an endpoint is ejected by its share of failed calls in an interval, of max_failures or more")
	}
	if t.tls != (TLSParameters{}) {
		t.note("what the mesh entry says of TLS has no effect: gRPC clients choose versions and cipher suites themselves")
	}
}

// grpcCluster is the cluster of a target for a gRPC client.
func (t *targets) grpcCluster(node *chain.Node, target *chain.Target, name string) GRPCClusterKey {
	if t.gateways(target) != (facts.Topic{}) {
		t.note(fmt.Sprintf("%s is reached through mesh gateways, which go by the SNI: gRPC clients send one only since late, "+
			"in Go with GRPC_EXPERIMENTAL_XDS_SNI=true", target.ID))
	}
	config := t.upstream.Upstream.Config
	return GRPCClusterKey{
		Name: name, LoadBalancer: t.grpcBalancer(node), MaxRequests: config.Limits.MaxConcurrentRequests,
		Outlier: config.Outlier, Transport: t.grpcTransport(target),
	}
}

// grpcTransport is how a gRPC client dials a target: what it may not set is not part of the key.
func (t *targets) grpcTransport(target *chain.Target) Transport {
	socket := t.transport(target)
	if tls, ok := socket.(MutualTLS); ok {
		tls.Parameters = TLSParameters{}
		return tls
	}
	return socket
}

// maxRing is the largest ring that gRPC clients make: they refuse a cluster that asks for more.
const maxRing = 8 << 20

// grpcBalancer is the policy that a gRPC client can follow, with a note where that is another one.
func (t *targets) grpcBalancer(node *chain.Node) LoadBalancer {
	lb := loadBalancer(node)
	switch lb.Policy {
	case "ring_hash":
		lb.MaxRing = min(lb.MaxRing, maxRing)
		lb.MinRing = min(lb.MinRing, maxRing)
		if lb.MaxRing > 0 {
			lb.MinRing = min(lb.MinRing, lb.MaxRing)
		}
		return LoadBalancer{Policy: lb.Policy, MinRing: lb.MinRing, MaxRing: lb.MaxRing}
	case "least_request":
		if !t.upstream.Dialect.leastRequest() {
			t.note("the policy least_request is round_robin here: this gRPC library does not have it")
		}
		if lb.LeastRequestsChoices > 0 {
			lb.LeastRequestsChoices = max(lb.LeastRequestsChoices, 2)
		}
		return LoadBalancer{Policy: lb.Policy, LeastRequestsChoices: lb.LeastRequestsChoices}
	case "random", "maglev":
		t.note(fmt.Sprintf("the policy %s is round_robin here: gRPC clients do not have it", lb.Policy))
	}
	return LoadBalancer{}
}

// grpcAggregate is a cluster that fails over, for a gRPC client.
func (t *targets) grpcAggregate(name string, node *chain.Node, children []string) GRPCAggregateKey {
	return GRPCAggregateKey{Name: name, LoadBalancer: t.grpcBalancer(node), children: strings.Join(children, "\n")}
}
