package snapshot

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// Config is what every plan and product has in common.
type Config struct {
	// Datacenter is the control plane's own.
	Datacenter string
	// TrustDomain ends every SNI and cluster name.
	TrustDomain string
	// PlaintextMesh lets registered sidecars have plaintext clusters to mesh targets, for measuring.
	PlaintextMesh bool
}

// Ref is one resource of a client: a product under a name.
type Ref struct {
	Name string
	Key  Key
}

// Plan is the list of products a client gets, per upstream. It names products and never depends on
// an instance, so that a health flip changes no plan.
type Plan struct {
	Kind Kind
	// Hold says why nothing may be said to the client yet; empty when something may.
	Hold string
	// Unregistered says why the client is not known; it keeps what it has.
	Unregistered string
	Upstreams    []UpstreamPlan
	// Needs are the topics that must be followed for this plan.
	Needs []facts.Topic
}

// UpstreamPlan is the part of a plan that one upstream makes up.
type UpstreamPlan struct {
	// Name is the upstream's Envoy ID.
	Name string
	// Bind is the address that the client's proxy listens at for it; with Name it tells the upstreams
	// of a client apart.
	Bind string
	// Pending says why the upstream cannot be served as it should be; Resources is then what was
	// last good, if anything.
	Pending string
	// Missing says what is left out, of an upstream that is served all the same or of one that is not
	// supported: it is no reason to wait.
	Missing []string
	// Notes say what is likely a mistake although nothing is wrong: a service nobody knows.
	Notes []string
	// Problems are the configuration errors that the upstream's chain has now.
	Problems  []chain.Problem
	Resources []Ref
}

// Complete reports whether the plan has all that the client should have. When not, what the client
// holds beyond the plan must not be taken away.
func (p *Plan) Complete() bool {
	if p.Hold != "" || p.Unregistered != "" {
		return false
	}
	for i := range p.Upstreams {
		if p.Upstreams[i].Pending != "" {
			return false
		}
	}
	return true
}

// Resources returns each resource of the plan once. Where two upstreams name a resource differently,
// the one listed first has it.
func (p *Plan) Resources() []Ref {
	type id struct{ product, name string }
	seen := map[id]bool{}
	var refs []Ref
	for i := range p.Upstreams {
		for _, ref := range p.Upstreams[i].Resources {
			if k := (id{ref.Key.Product(), ref.Name}); !seen[k] {
				seen[k] = true
				refs = append(refs, ref)
			}
		}
	}
	return refs
}

// planner makes one plan.
type planner struct {
	cfg    Config
	r      *facts.Reader
	chains func(ChainKey) ChainState
	kind   Kind
	needs  map[facts.Topic]bool
}

// plan says what a client gets.
func (p *planner) plan(c Client) *Plan {
	p.needs = map[facts.Topic]bool{}
	upstreams, plan := c.Upstreams, &Plan{Kind: Plain}
	if !c.Declared {
		plan.Kind = Mesh
		upstreams, plan.Hold, plan.Unregistered = p.registered(c)
	}
	p.kind = plan.Kind
	if plan.Hold == "" && plan.Unregistered == "" {
		plan.Upstreams = p.upstreams(c, upstreams)
		plan.Hold = holdReason(plan.Upstreams)
	}
	for t := range p.needs {
		plan.Needs = append(plan.Needs, t)
	}
	plan.Needs = union(plan.Needs, nil)
	return plan
}

// union returns the topics of both lists, each once, in order.
func union(a, b []facts.Topic) []facts.Topic {
	all := slices.Concat(a, b)
	slices.SortFunc(all, func(a, b facts.Topic) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(all)
}

// holdReason is why nothing can be said yet: every upstream is pending without a last good one.
// Saying nothing leaves a new proxy waiting, where an empty answer would start it empty.
func holdReason(upstreams []UpstreamPlan) string {
	for i := range upstreams {
		if upstreams[i].Pending == "" {
			return ""
		}
	}
	if len(upstreams) == 0 {
		return ""
	}
	return upstreams[0].Pending
}

func (p *planner) upstreams(c Client, upstreams []Upstream) []UpstreamPlan {
	plans := make([]UpstreamPlan, 0, len(upstreams))
	bound := map[string]string{}
	for _, u := range upstreams {
		if u.unsupported != "" {
			plans = append(plans, UpstreamPlan{Name: u.EnvoyID(), Missing: []string{u.unsupported}})
			continue
		}
		bind := net.JoinHostPort(u.BindAddress, strconv.Itoa(u.BindPort))
		if other, taken := bound[bind]; taken {
			plans = append(plans, UpstreamPlan{
				Name: u.EnvoyID(), Bind: bind,
				Pending: fmt.Sprintf("%s is already the address of upstream %s: give it another port", bind, other),
			})
			continue
		}
		bound[bind] = u.EnvoyID()
		plan := p.upstream(c, u)
		plan.Bind = bind
		plans = append(plans, plan)
	}
	return plans
}

// upstream plans the listener, routes, clusters and endpoint sets of one upstream.
func (p *planner) upstream(c Client, u Upstream) UpstreamPlan {
	cfg := u.Config.or(centralConfig(p.r, c.Service, u.Service))
	key := ChainKey{
		Service: u.Service, Datacenter: u.Datacenter,
		Overrides: chain.Overrides{
			Protocol:       cfg.Protocol,
			ConnectTimeout: time.Duration(cfg.ConnectTimeoutMs) * time.Millisecond,
			MeshGateway:    cfg.MeshGateway,
		},
	}
	if key.Datacenter == "" {
		key.Datacenter = p.cfg.Datacenter
	}
	state := p.chains(key)
	out := UpstreamPlan{Name: u.EnvoyID(), Pending: state.Pending, Problems: state.Problems}
	if out.Pending != "" {
		return out
	}
	t := &targets{planner: p, key: key, config: cfg, out: &out}
	if state.Chain != nil {
		t.plan(state.Chain)
	}
	if out.Pending != "" {
		out.Resources = nil
		return out
	}
	out.Resources = append(out.Resources, p.entrance(u, key, state.Protocol)...)
	return out
}

// entrance is where the client's traffic to an upstream enters: the listener and its routes.
func (p *planner) entrance(u Upstream, key ChainKey, protocol string) []Ref {
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
