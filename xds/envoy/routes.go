package envoy

import (
	"math"
	"regexp"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/snapshot"
)

// routes translates a chain into the one virtual host of its upstream. refs are the clusters it sends
// to, each once, in order.
func routes(k snapshot.RoutesKey, p snapshot.Routes) (*routev3.RouteConfiguration, []string) {
	b := &routeBuilder{chain: p.Chain}
	var list []*routev3.Route
	if p.Chain == nil {
		list = []*routev3.Route{refusal(p.Problem)}
	} else {
		list = b.start(p.Chain.Nodes[p.Chain.StartNode])
	}
	slices.Sort(b.refs)
	out := &routev3.RouteConfiguration{
		Name: k.Name,
		VirtualHosts: []*routev3.VirtualHost{{
			Name: virtualHost(k, p.Chain), Domains: []string{"*"}, Routes: list,
		}},
	}
	// Where it is not asked for, a route may arrive before Envoy has its cluster: it answers 503 until then
	// instead of refusing the routes.
	if k.ValidateClusters {
		out.ValidateClusters = wrapperspb.Bool(true)
	}
	return out, slices.Compact(b.refs)
}

// virtualHost is how Envoy's statistics call the routes: as in Consul, by the service where no entry shapes
// its chain.
func virtualHost(k snapshot.RoutesKey, c *chain.Chain) string {
	if c == nil || !c.Default {
		return k.Name
	}
	return strings.Join([]string{c.ServiceName, c.Namespace, c.Partition, c.Datacenter}, ".")
}

// refusal answers every request with the reason why there is no chain.
func refusal(problem string) *routev3.Route {
	return &routev3.Route{
		Match: anyPath(),
		Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{
			Status: 503,
			Body: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{
				InlineString: "catenary: " + clip(problem) + "\n",
			}},
		}},
	}
}

// maxProblem keeps the body of a refusal below the 4096 bytes that Envoy accepts.
const maxProblem = 4000

func clip(text string) string {
	if len(text) <= maxProblem {
		return text
	}
	return strings.ToValidUTF8(text[:maxProblem], "") + "..."
}

type routeBuilder struct {
	chain *chain.Chain
	refs  []string
}

func (b *routeBuilder) start(node *chain.Node) []*routev3.Route {
	if node == nil {
		return nil
	}
	if node.Type != chain.NodeRouter {
		action := b.action(node)
		// A resolver's request timeout holds only where the chain starts with it.
		if node.Resolver != nil && node.Resolver.RequestTimeout > 0 {
			action.Timeout = durationpb.New(node.Resolver.RequestTimeout)
		}
		return []*routev3.Route{{Match: anyPath(), Action: &routev3.Route_Route{Route: action}}}
	}
	list := make([]*routev3.Route, 0, len(node.Routes))
	for _, r := range node.Routes {
		list = append(list, b.route(r))
	}
	return list
}

func (b *routeBuilder) route(r *chain.Route) *routev3.Route {
	action := b.action(b.chain.Nodes[r.NextNode])
	out := &routev3.Route{Match: match(r.Definition), Action: &routev3.Route_Route{Route: action}}
	if r.Definition == nil || r.Definition.Destination == nil {
		return out
	}
	d := r.Definition.Destination
	rewrite(action, out.Match, d.PrefixRewrite)
	action.Timeout = timeout(d.RequestTimeout)
	action.IdleTimeout = timeout(d.IdleTimeout)
	action.RetryPolicy = retry(d)
	if action.RetryPolicy != nil && b.failsOver(b.chain.Nodes[r.NextNode]) {
		action.RetryPolicy.RetryPriority = previousPriorities()
	}
	out.RequestHeadersToAdd, out.RequestHeadersToRemove = modify(d.RequestHeaders)
	out.ResponseHeadersToAdd, out.ResponseHeadersToRemove = modify(d.ResponseHeaders)
	return out
}

// failsOver reports whether a leg of a splitter fails over.
func (b *routeBuilder) failsOver(node *chain.Node) bool {
	if node == nil || node.Type != chain.NodeSplitter {
		return false
	}
	return slices.ContainsFunc(node.Splits, func(s *chain.Split) bool {
		leg := b.chain.Nodes[s.NextNode]
		return leg != nil && leg.Resolver != nil && leg.Resolver.Failover != nil && len(leg.Resolver.Failover.Targets) > 0
	})
}

// rewrite replaces what a route's path matched by. A prefix that is replaced by / takes the slash that
// follows it along, as in Consul: else /shop/cart would become //cart.
func rewrite(action *routev3.RouteAction, m *routev3.RouteMatch, to string) {
	prefix, ok := m.GetPathSpecifier().(*routev3.RouteMatch_Prefix)
	if to != "/" || !ok {
		action.PrefixRewrite = to
		return
	}
	pattern := "^" + regexp.QuoteMeta(prefix.Prefix) + "(/?)(.*)"
	if m.CaseSensitive != nil && !m.CaseSensitive.Value {
		pattern = "(?i)" + pattern
	}
	action.RegexRewrite = &matcherv3.RegexMatchAndSubstitute{
		Pattern: &matcherv3.RegexMatcher{Regex: pattern}, Substitution: `/\2`,
	}
}

// action sends to a splitter's weighted clusters or a resolver's one.
func (b *routeBuilder) action(node *chain.Node) *routev3.RouteAction {
	action := &routev3.RouteAction{}
	if node == nil {
		return action
	}
	if node.LoadBalancer != nil {
		action.HashPolicy = hashPolicies(node.LoadBalancer)
	}
	if node.Type == chain.NodeSplitter {
		action.ClusterSpecifier = &routev3.RouteAction_WeightedClusters{WeightedClusters: b.weighted(node)}
		return action
	}
	name, _ := clusterOf(b.chain, node)
	b.refs = append(b.refs, name)
	action.ClusterSpecifier = &routev3.RouteAction_Cluster{Cluster: name}
	return action
}

// weighted turns percentages into weights in steps of 0.01, the finest that Consul has.
func (b *routeBuilder) weighted(node *chain.Node) *routev3.WeightedCluster {
	out := &routev3.WeightedCluster{}
	for _, s := range node.Splits {
		name, _ := clusterOf(b.chain, b.chain.Nodes[s.NextNode])
		b.refs = append(b.refs, name)
		w := &routev3.WeightedCluster_ClusterWeight{
			Name:   name,
			Weight: wrapperspb.UInt32(uint32(max(0, math.Round(float64(s.Weight)*100)))),
		}
		if s.Definition != nil {
			w.RequestHeadersToAdd, w.RequestHeadersToRemove = modify(s.Definition.RequestHeaders)
			w.ResponseHeadersToAdd, w.ResponseHeadersToRemove = modify(s.Definition.ResponseHeaders)
		}
		out.Clusters = append(out.Clusters, w)
	}
	return out
}
