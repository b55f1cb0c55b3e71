package intentions_test

import (
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"
)

// The types of resources, as they are named on the wire.
const (
	listenerType  = "type.googleapis.com/envoy.config.listener.v3.Listener"
	clusterType   = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	endpointType  = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	extensionType = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig"
	routeType     = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
)

// control is a control plane for one Envoy: it sends what it is given, in that order, over delta.
type control struct {
	t    *testing.T
	addr string

	mu        sync.Mutex
	changed   chan struct{}
	nonce     int
	resources map[string]map[string]*anypb.Any // by type and name
	versions  map[string]int                   // by type and name
	queue     []update
	refused   []string
}

type update struct{ kind, name string }

func startControl(t *testing.T) *control {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &control{
		t: t, addr: lis.Addr().String(), changed: make(chan struct{}, 1),
		resources: map[string]map[string]*anypb.Any{}, versions: map[string]int{},
	}
	g := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(g, served{control: c})
	done := make(chan struct{})
	go func() { defer close(done); _ = g.Serve(lis) }()
	t.Cleanup(func() { g.Stop(); <-done })
	return c
}

// set sends a resource, or its removal when the value is nil.
func (c *control) set(kind, name string, value object) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.resources[kind] == nil {
		c.resources[kind] = map[string]*anypb.Any{}
	}
	delete(c.resources[kind], name)
	if value != nil {
		c.resources[kind][name] = asAny(c.t, kind, value)
	}
	c.versions[kind+name]++
	c.queue = append(c.queue, update{kind, name})
	c.wake()
}

func (c *control) wake() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// refusals are the errors of what Envoy did not accept.
func (c *control) refusals() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.refused)
}

func asAny(t *testing.T, kind string, value object) *anypb.Any {
	t.Helper()
	with := object{"@type": kind}
	for k, v := range value {
		with[k] = v
	}
	text, err := json.Marshal(with)
	if err != nil {
		t.Fatal(err)
	}
	a := &anypb.Any{}
	if err := protojson.Unmarshal(text, a); err != nil {
		t.Fatalf("%s: %v\n%s", kind, err, text)
	}
	return a
}

type served struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	*control
}

// DeltaAggregatedResources serves the one stream of an Envoy.
func (c served) DeltaAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	requests := make(chan *discoveryv3.DeltaDiscoveryRequest)
	go func() {
		defer close(requests)
		for {
			r, err := stream.Recv()
			if err != nil {
				return
			}
			select {
			case requests <- r:
			case <-stream.Context().Done():
				return
			}
		}
	}()
	subscribed := map[string]map[string]bool{}
	for {
		var out []*discoveryv3.DeltaDiscoveryResponse
		select {
		case r, ok := <-requests:
			if !ok {
				return nil
			}
			// What is queued goes first: a listener is no good before its cluster.
			out = append(c.drain(subscribed), c.ask(subscribed, r)...)
		case <-c.changed:
			out = c.drain(subscribed)
		}
		for _, o := range out {
			if err := stream.Send(o); err != nil {
				return err
			}
		}
	}
}

// ask answers a request.
func (c *control) ask(subscribed map[string]map[string]bool, r *discoveryv3.DeltaDiscoveryRequest) []*discoveryv3.DeltaDiscoveryResponse {
	c.mu.Lock()
	defer c.mu.Unlock()
	kind := r.GetTypeUrl()
	if e := r.GetErrorDetail(); e != nil {
		c.refused = append(c.refused, e.GetMessage())
	}
	names := r.GetResourceNamesSubscribe()
	if _, known := subscribed[kind]; !known {
		subscribed[kind] = map[string]bool{}
		if len(names) == 0 {
			names = []string{"*"}
		}
	}
	for _, n := range r.GetResourceNamesUnsubscribe() {
		delete(subscribed[kind], n)
	}
	if len(names) == 0 {
		return nil
	}
	answer := c.response(kind)
	for _, n := range names {
		subscribed[kind][n] = true
		if n != "*" {
			if kind != extensionType || c.resources[kind][n] != nil { // rules may yet come
				c.add(answer, n)
			}
			continue
		}
		for name := range c.resources[kind] {
			c.add(answer, name)
		}
	}
	if len(answer.Resources)+len(answer.RemovedResources) == 0 {
		return nil
	}
	return []*discoveryv3.DeltaDiscoveryResponse{answer}
}

// drain returns what was set since, one response each, so that their order is that of set.
func (c *control) drain(subscribed map[string]map[string]bool) (out []*discoveryv3.DeltaDiscoveryResponse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, u := range c.queue {
		if names := subscribed[u.kind]; names["*"] || names[u.name] {
			r := c.response(u.kind)
			c.add(r, u.name)
			out = append(out, r)
		}
	}
	c.queue = nil
	return out
}

func (c *control) response(kind string) *discoveryv3.DeltaDiscoveryResponse {
	c.nonce++
	return &discoveryv3.DeltaDiscoveryResponse{TypeUrl: kind, Nonce: fmt.Sprint(c.nonce)}
}

func (c *control) add(r *discoveryv3.DeltaDiscoveryResponse, name string) {
	value, ok := c.resources[r.TypeUrl][name]
	if !ok {
		r.RemovedResources = append(r.RemovedResources, name)
		return
	}
	r.Resources = append(r.Resources, &discoveryv3.Resource{
		Name: name, Version: fmt.Sprint(c.versions[r.TypeUrl+name]), Resource: value,
	})
}
