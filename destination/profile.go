package destination

import (
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/catenary-mesh/catenary/chain"
	pb "github.com/catenary-mesh/catenary/internal/proto/destination"
)

// The bounds of retries, which are Linkerd's own: a budget that a proxy does not take turns them off silently.
const (
	retryRatio        = 0.2
	retriesPerSecond  = 10
	retryBudgetPeriod = 10 * time.Second
)

// wholeWeight is the share of a destination that has all; one of 0.01 % has 1.
const wholeWeight = 10_000

// Profile is how requests to a name are treated, and what of its chain no profile can say.
type Profile struct {
	*pb.DestinationProfile
	Notes []string
	// Unexpressed are the routes that are left out, Weakened those that lost their retries and timeout to them.
	Unexpressed, Weakened int
}

// DefaultProfile is that of what is not known: it says nothing.
func DefaultProfile() Profile {
	return Profile{DestinationProfile: &pb.DestinationProfile{RetryBudget: budget()}}
}

func budget() *pb.RetryBudget {
	return &pb.RetryBudget{
		RetryRatio: retryRatio, MinRetriesPerSecond: retriesPerSecond, Ttl: durationpb.New(retryBudgetPeriod),
	}
}

// NewProfile translates the chain of a name. Requests are split as the chain does where it has no route that
// matches before; without a splitter all go to the name itself, and the profile says so, because a proxy of today
// balances only what a profile sends somewhere. A nil chain is one that never compiled, of an unknown protocol.
func NewProfile(c *chain.Chain, name Name) Profile {
	p := DefaultProfile()
	p.FullyQualifiedName = name.Host()
	p.ParentRef = resource("Service", name.Service, uint32(name.Port))
	if c == nil {
		p.DstOverrides = []*pb.WeightedDst{p.whole(name)}
		return p
	}
	p.OpaqueProtocol = !chain.IsLayer7(c.Protocol)
	node := c.Nodes[c.StartNode]
	if node != nil && node.Type == chain.NodeRouter {
		p.ProfileRef = resource("service-router", name.Service, 0)
		node = p.routed(c, node)
	} else if node != nil && node.Resolver != nil && node.Resolver.RequestTimeout > 0 && !p.OpaqueProtocol {
		// A resolver's request timeout holds only where the chain starts with it.
		p.Routes = []*pb.Route{{
			Condition: anyPath(), MetricsLabels: map[string]string{"route": "*"},
			Timeout: durationpb.New(node.Resolver.RequestTimeout),
		}}
	}
	p.DstOverrides = p.overrides(c, node, name)
	return p
}

func (p *Profile) note(format string, args ...any) {
	p.Notes = append(p.Notes, fmt.Sprintf(format, args...))
}

func (p *Profile) whole(name Name) *pb.WeightedDst {
	return &pb.WeightedDst{
		Authority: name.Authority(), Weight: wholeWeight, BackendRef: resource("Service", name.Service, uint32(name.Port)),
	}
}

// overrides are the destinations of a node, by their shares.
func (p *Profile) overrides(c *chain.Chain, node *chain.Node, name Name) []*pb.WeightedDst {
	if node == nil {
		return []*pb.WeightedDst{p.whole(name)}
	}
	if node.Type != chain.NodeSplitter {
		return []*pb.WeightedDst{p.single(c, node, name)}
	}
	var list []*pb.WeightedDst
	byAuthority := map[string]*pb.WeightedDst{}
	for _, leg := range node.Splits {
		weight := uint32(max(0, math.Round(float64(leg.Weight)*100)))
		if weight == 0 {
			continue
		}
		if d := leg.Definition; d != nil && (d.RequestHeaders != nil || d.ResponseHeaders != nil) {
			p.note("the changes of headers in a leg of the splitter are left out: Linkerd makes none")
		}
		d := p.whole(p.nameOf(c, c.Nodes[leg.NextNode], name))
		if known := byAuthority[d.Authority]; known != nil {
			known.Weight += weight
			continue
		}
		d.Weight = weight
		byAuthority[d.Authority] = d
		list = append(list, d)
	}
	if len(list) == 0 {
		return []*pb.WeightedDst{p.whole(name)}
	}
	return list
}

// single is the one destination of a resolver: the name itself where the name resolves to it.
func (p *Profile) single(c *chain.Chain, node *chain.Node, name Name) *pb.WeightedDst {
	own := resolverOf(c, name)
	if own == node.Name || own == "" {
		return p.whole(name)
	}
	return p.whole(p.nameOf(c, node, name))
}

// resolverOf is the name of the resolver node that the name itself ends in, empty where the start says it.
func resolverOf(c *chain.Chain, name Name) string {
	start := c.Nodes[c.StartNode]
	if start == nil || start.Type != chain.NodeRouter || len(start.Routes) == 0 {
		return ""
	}
	last := start.Routes[len(start.Routes)-1] // that of the service itself, which every router ends with
	node := c.Nodes[last.NextNode]
	if node == nil || node.Resolver == nil {
		// Behind a splitter the service itself stands for what its resolver says, which a leg may be too.
		return "service " + name.Service
	}
	return node.Name
}

// nameOf is the name that resolves to what a resolver node ends in. Where there is no way to write it, it is one that
// has no endpoints: the share of a leg goes to nobody else.
func (p *Profile) nameOf(c *chain.Chain, node *chain.Node, of Name) Name {
	nowhere := Name{Service: "none", Peer: "none", Datacenter: of.Datacenter, Port: of.Port}
	var t *chain.Target
	if node != nil && node.Resolver != nil {
		t = c.Targets[node.Resolver.Target]
	}
	if t == nil {
		return nowhere
	}
	n := Name{Subset: t.ServiceSubset, Service: t.Service, Datacenter: t.Datacenter, Peer: t.Peer, Port: of.Port}
	if n.Peer != "" {
		n.Datacenter = of.Datacenter
		p.note("%s has no endpoints, and requests to it fail: cluster peering is not supported", node.Name)
	}
	elsewhere := func(part string) bool { return part != "" && part != namespace }
	if elsewhere(t.Namespace) || elsewhere(t.Partition) && t.Peer == "" || !n.expressible() {
		p.note("%s cannot be written as a name, and requests to it fail", node.Name)
		return nowhere
	}
	return n
}
