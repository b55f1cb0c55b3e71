package envoy

import (
	"math"
	"slices"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/snapshot"
)

// channelID is the state by which a gRPC client hashes its own channel.
const channelID = "io.grpc.channel_id"

// grpcRoutes translates a chain for gRPC clients. One that never compiled has no routes: a direct response,
// which could say why, is refused by some libraries. refs are the clusters, each once, in order.
func grpcRoutes(k snapshot.GRPCRoutesKey, p snapshot.Routes) (*routev3.RouteConfiguration, []string) {
	if p.Chain == nil {
		return grpcVirtualHost(k.Name, nil, k.Unhosted), nil
	}
	b := &routeBuilder{chain: p.Chain}
	list, _ := snapshot.GRPCRoutes(p.Chain)
	routes := make([]*routev3.Route, 0, len(list))
	for i := range list {
		routes = append(routes, b.grpcRoute(&list[i]))
	}
	slices.Sort(b.refs)
	return grpcVirtualHost(k.Name, routes, k.Unhosted), slices.Compact(b.refs)
}

func (b *routeBuilder) grpcRoute(r *snapshot.GRPCRoute) *routev3.Route {
	action := &routev3.RouteAction{}
	b.grpcClusters(action, r.Node)
	for i := range r.Hash {
		action.HashPolicy = append(action.HashPolicy, grpcHash(&r.Hash[i]))
	}
	if r.Timeout != nil {
		action.MaxStreamDuration = &routev3.RouteAction_MaxStreamDuration{MaxStreamDuration: durationpb.New(*r.Timeout)}
	}
	if len(r.RetryOn) > 0 {
		action.RetryPolicy = &routev3.RetryPolicy{
			RetryOn: strings.Join(r.RetryOn, ","), NumRetries: wrapperspb.UInt32(r.Retries),
		}
	}
	def := &chain.ServiceRoute{Match: &chain.RouteMatch{HTTP: r.Match}}
	matched := match(def)
	groupRegexes(matched.ProtoReflect())
	for _, h := range matched.Headers {
		if excludes(h) {
			matched.Headers = append(matched.Headers, present(h))
		}
	}
	return &routev3.Route{Match: matched, Action: &routev3.Route_Route{Route: action}}
}

// grpcClusters sends to a resolver's cluster, or to a splitter's, each named once: libraries differ in what
// they make of a name that comes twice. Weights are in steps of 0.01, the finest that Consul has.
func (b *routeBuilder) grpcClusters(action *routev3.RouteAction, node *chain.Node) {
	if node.Type != chain.NodeSplitter {
		name, _ := clusterOf(b.chain, node)
		b.refs = append(b.refs, name)
		action.ClusterSpecifier = &routev3.RouteAction_Cluster{Cluster: name}
		return
	}
	weights := map[string]uint32{}
	var names []string
	for _, s := range node.Splits {
		name, _ := clusterOf(b.chain, b.chain.Nodes[s.NextNode])
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		weights[name] += uint32(max(0, math.Round(float64(s.Weight)*100)))
	}
	out := &routev3.WeightedCluster{}
	for _, name := range names {
		b.refs = append(b.refs, name)
		out.Clusters = append(out.Clusters, &routev3.WeightedCluster_ClusterWeight{
			Name: name, Weight: wrapperspb.UInt32(weights[name]),
		})
	}
	action.ClusterSpecifier = &routev3.RouteAction_WeightedClusters{WeightedClusters: out}
}

func grpcHash(h *chain.HashPolicy) *routev3.RouteAction_HashPolicy {
	out := &routev3.RouteAction_HashPolicy{Terminal: h.Terminal}
	if h.SourceIP {
		out.PolicySpecifier = &routev3.RouteAction_HashPolicy_FilterState_{
			FilterState: &routev3.RouteAction_HashPolicy_FilterState{Key: channelID},
		}
		return out
	}
	out.PolicySpecifier = &routev3.RouteAction_HashPolicy_Header_{
		Header: &routev3.RouteAction_HashPolicy_Header{HeaderName: h.FieldValue},
	}
	return out
}
