package oraclexds_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
)

const (
	// patience is how long a server may take to start, or to answer everything.
	patience = 15 * time.Second

	// all asks for everything of a type, by naming nothing: Consul takes "*" for a name.
	all = "*"

	prefix       = "type.googleapis.com/"
	clusterType  = prefix + "envoy.config.cluster.v3.Cluster"
	endpointType = prefix + "envoy.config.endpoint.v3.ClusterLoadAssignment"
	listenerType = prefix + "envoy.config.listener.v3.Listener"
	routeType    = prefix + "envoy.config.route.v3.RouteConfiguration"
	secretType   = prefix + "envoy.extensions.transport_sockets.tls.v3.Secret"
	filterType   = prefix + "envoy.config.core.v3.TypedExtensionConfig"
)

// resources are what a server sent last, by type and name.
type resources map[string]map[string]*anypb.Any

// proxy is a client as Envoy is one: it asks for all clusters and listeners, and for what they name.
type proxy struct {
	stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	node   *corev3.Node // nil when it was sent
	got    resources
	asked  map[string]map[string]bool // names by type
}

// collect returns everything that a server gives a sidecar, when all that is named has come and for some
// time no more comes, and what there is when it fails.
func collect(ctx context.Context, addr, token string, c *scenario, silence time.Duration) (resources, error) {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, patience)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "x-consul-token", token)
	}
	p := &proxy{node: node(c), got: resources{}, asked: map[string]map[string]bool{}}
	p.stream, err = discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx, grpc.WaitForReady(true))
	if err != nil {
		return nil, err
	}
	responses := make(chan *discoveryv3.DeltaDiscoveryResponse)
	ended := make(chan error, 1)
	reading.Go(func() { ended <- p.read(ctx, responses) })
	if err := p.ask(clusterType, all); err != nil {
		return nil, err
	}
	return p.got, p.converse(responses, ended, silence)
}

// node is what an Envoy says of itself.
func node(c *scenario) *corev3.Node {
	return &corev3.Node{
		Id: c.Proxy, Cluster: c.service(), UserAgentName: "envoy",
		UserAgentVersionType: &corev3.Node_UserAgentBuildVersion{UserAgentBuildVersion: &corev3.BuildVersion{
			Version: &typev3.SemanticVersion{MajorNumber: 1, MinorNumber: 35},
		}},
		Extensions: []*corev3.Extension{
			{Name: "envoy.wasm.runtime.v8", Category: "envoy.wasm.runtime"},
			{Name: "envoy.filters.network.wasm", Category: "envoy.filters.network"},
			{Name: "envoy.filters.http.wasm", Category: "envoy.filters.http"},
		},
		Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"node_name": structpb.NewStringValue("node-1")}},
	}
}

func (p *proxy) read(ctx context.Context, responses chan<- *discoveryv3.DeltaDiscoveryResponse) error {
	for {
		m, err := p.stream.Recv()
		if err != nil {
			return err
		}
		select {
		case responses <- m:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *proxy) converse(responses <-chan *discoveryv3.DeltaDiscoveryResponse, ended <-chan error, silence time.Duration) error {
	var quiet <-chan time.Time
	for {
		select {
		case m := <-responses:
			if err := p.take(m); err != nil {
				return err
			}
			if quiet = nil; len(p.missing()) == 0 {
				quiet = time.After(silence)
			}
		case err := <-ended:
			return fmt.Errorf("the stream ended, and these had not come: %v: %w", p.missing(), err)
		case <-quiet:
			return nil
		}
	}
}

// take keeps a response, asks for what it names, and accepts it.
func (p *proxy) take(m *discoveryv3.DeltaDiscoveryResponse) error {
	of := p.got[m.GetTypeUrl()]
	if of == nil {
		of = map[string]*anypb.Any{}
		p.got[m.GetTypeUrl()] = of
	}
	for _, name := range m.GetRemovedResources() {
		delete(of, name)
	}
	for _, r := range m.GetResources() {
		of[r.GetName()] = r.GetResource()
	}
	if err := p.stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: m.GetTypeUrl(), ResponseNonce: m.GetNonce()}); err != nil {
		return err
	}
	switch m.GetTypeUrl() {
	case clusterType, listenerType, filterType:
		for _, r := range m.GetResources() {
			if err := p.follow(r.GetResource()); err != nil {
				return fmt.Errorf("%s: %w", r.GetName(), err)
			}
		}
	}
	if m.GetTypeUrl() == clusterType {
		return p.ask(listenerType, all)
	}
	return nil
}

// follow asks for all that a resource names.
func (p *proxy) follow(resource *anypb.Any) error {
	m, err := resource.UnmarshalNew()
	if err != nil {
		return err
	}
	if c, ok := m.(*clusterv3.Cluster); ok && c.GetType() == clusterv3.Cluster_EDS {
		name := c.GetEdsClusterConfig().GetServiceName()
		if name == "" {
			name = c.GetName()
		}
		if err := p.ask(endpointType, name); err != nil {
			return err
		}
	}
	for kind, names := range named(m.ProtoReflect()) {
		for _, name := range names {
			if err := p.ask(kind, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// ask subscribes to a name, once.
func (p *proxy) ask(kind, name string) error {
	if p.asked[kind] == nil {
		p.asked[kind] = map[string]bool{}
	}
	if p.asked[kind][name] {
		return nil
	}
	p.asked[kind][name] = true
	req := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: kind}
	if name != all {
		req.ResourceNamesSubscribe = []string{name}
	}
	if p.node != nil {
		req.Node, p.node = proto.CloneOf(p.node), nil
	}
	return p.stream.Send(req)
}

// missing are the names that were asked for and have not come.
func (p *proxy) missing() []string {
	var list []string
	for kind, names := range p.asked {
		for name := range names {
			if _, ok := p.got[kind]; name == all && !ok {
				list = append(list, kind)
			} else if name != all && p.got[kind][name] == nil {
				list = append(list, kind+"/"+name)
			}
		}
	}
	slices.Sort(list)
	return list
}
