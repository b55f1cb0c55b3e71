package xds_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/catenary-mesh/catenary/internal/bootstrap"
	"github.com/catenary-mesh/catenary/xds/session"
)

// dial opens a connection that ends with the test.
func (c *control) dial(opts ...grpc.DialOption) *grpc.ClientConn {
	c.t.Helper()
	conn, err := grpc.NewClient(c.addr, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// declaring is a node that brings its upstreams.
func declaring(t testing.TB, id, service string, upstreams ...bootstrap.Upstream) *corev3.Node {
	t.Helper()
	list := make([]any, 0, len(upstreams))
	for _, u := range upstreams {
		list = append(list, map[string]any{"service": u.Service, "bind_port": u.BindPort})
	}
	metadata, err := structpb.NewStruct(map[string]any{
		bootstrap.MetadataKey: map[string]any{"service": service, "upstreams": list},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &corev3.Node{Id: id, Cluster: service, Metadata: metadata}
}

// wire is an open stream of either form. What the forms have in common is said in terms of delta.
type wire struct {
	sotw  discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient
	delta discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
}

func openWire(ctx context.Context, conn *grpc.ClientConn, sotw bool) (w wire, err error) {
	if sotw {
		w.sotw, err = discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
		return w, err
	}
	w.delta, err = discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	return w, err
}

// message is what a client says. Names are all it asks for; in delta, add and drop are the change.
type message struct {
	node             *corev3.Node
	url, nonce, info string
	names, add, drop []string
	initial          map[string]string
	refuse           string
}

func (w wire) send(m message) error {
	var detail *statuspb.Status
	if m.refuse != "" {
		detail = &statuspb.Status{Code: 3, Message: m.refuse}
	}
	if w.sotw != nil {
		return w.sotw.Send(&discoveryv3.DiscoveryRequest{
			Node: m.node, TypeUrl: m.url, ResponseNonce: m.nonce, VersionInfo: m.info, ResourceNames: m.names, ErrorDetail: detail,
		})
	}
	return w.delta.Send(&discoveryv3.DeltaDiscoveryRequest{
		Node: m.node, TypeUrl: m.url, ResponseNonce: m.nonce, ErrorDetail: detail,
		ResourceNamesSubscribe: m.add, ResourceNamesUnsubscribe: m.drop, InitialResourceVersions: m.initial,
	})
}

func (w wire) close() error {
	if w.sotw != nil {
		return w.sotw.CloseSend()
	}
	return w.delta.CloseSend()
}

// told is one response: bodies by name.
type told struct {
	url, nonce, version string
	bodies              map[string][]byte
	removed             []string
}

func (w wire) recv() (told, error) {
	if w.sotw != nil {
		m, err := w.sotw.Recv()
		out := told{url: m.GetTypeUrl(), nonce: m.GetNonce(), version: m.GetVersionInfo(), bodies: map[string][]byte{}}
		for _, r := range m.GetResources() {
			out.bodies[nameOf(out.url, r.GetValue())] = r.GetValue()
		}
		return out, err
	}
	m, err := w.delta.Recv()
	out := told{
		url: m.GetTypeUrl(), nonce: m.GetNonce(), version: m.GetSystemVersionInfo(),
		bodies: map[string][]byte{}, removed: m.GetRemovedResources(),
	}
	for _, r := range m.GetResources() {
		body := r.GetResource().GetValue()
		if v := versionOf(body); v != r.GetVersion() {
			return out, fmt.Errorf("%s has the version %s, want %s", r.GetName(), r.GetVersion(), v)
		}
		out.bodies[r.GetName()] = body
	}
	return out, err
}

func versionOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:8])
}

func nameOf(url string, body []byte) string {
	switch url {
	case session.ClusterURL:
		return parsed(body, &clusterv3.Cluster{}).GetName()
	case session.EndpointURL:
		return parsed(body, &endpointv3.ClusterLoadAssignment{}).GetClusterName()
	case session.ListenerURL:
		return parsed(body, &listenerv3.Listener{}).GetName()
	}
	return parsed(body, &routev3.RouteConfiguration{}).GetName()
}

func parsed[M proto.Message](body []byte, m M) M {
	if err := proto.Unmarshal(body, m); err != nil {
		panic(err) // what the server sends is a message
	}
	return m
}

// follower is a client that follows the protocol as Envoy does: it asks for all clusters and
// listeners, and by name for the endpoints and routes that those refer to.
type follower struct {
	node *corev3.Node
	sotw bool

	mu   sync.Mutex
	held map[string]map[string][]byte // body by name, by URL
	info map[string]string            // version by URL (SotW)
}

func newFollower(node *corev3.Node, sotw bool) *follower {
	f := &follower{node: node, sotw: sotw, held: map[string]map[string][]byte{}, info: map[string]string{}}
	for _, t := range session.Types() {
		f.held[t.URL] = map[string][]byte{}
	}
	return f
}

// names are what the client asks for by name.
func (f *follower) names(url string) []string {
	names := map[string]bool{}
	switch url {
	case session.EndpointURL:
		for _, body := range f.held[session.ClusterURL] {
			if c := parsed(body, &clusterv3.Cluster{}); c.GetType() == clusterv3.Cluster_EDS {
				name := cmp.Or(c.GetEdsClusterConfig().GetServiceName(), c.GetName())
				if name == "" {
					name = c.GetName()
				}
				names[name] = true
			}
		}
	case session.RouteURL:
		for _, body := range f.held[session.ListenerURL] {
			if name := routesOf(parsed(body, &listenerv3.Listener{})); name != "" {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func routesOf(l *listenerv3.Listener) string {
	for _, chain := range l.GetFilterChains() {
		for _, filter := range chain.GetFilters() {
			hcm := &hcmv3.HttpConnectionManager{}
			if filter.GetTypedConfig().UnmarshalTo(hcm) == nil {
				return hcm.GetRds().GetRouteConfigName()
			}
		}
	}
	return ""
}

// dependent is the type whose names follow from another.
var dependent = map[string]string{session.ClusterURL: session.EndpointURL, session.ListenerURL: session.RouteURL}

// follow follows one stream until it ends. It may be called again: what is held is said at the start.
func (f *follower) follow(ctx context.Context, conn *grpc.ClientConn) error {
	w, err := openWire(ctx, conn, f.sotw)
	if err != nil {
		return err
	}
	node := f.node
	asked := map[string][]string{}
	for _, url := range []string{session.ClusterURL, session.EndpointURL, session.ListenerURL, session.RouteURL} {
		f.mu.Lock()
		m := message{node: node, url: url, info: f.info[url], names: f.names(url), initial: map[string]string{}}
		for name, body := range f.held[url] {
			m.initial[name] = versionOf(body)
		}
		f.mu.Unlock()
		m.add, asked[url] = m.names, m.names
		if dependentOn(url) && len(m.names) == 0 {
			continue
		}
		if !dependentOn(url) && !f.sotw {
			m.add = []string{"*"}
		}
		if err := w.send(m); err != nil {
			break // the reason comes with the next response
		}
		node = nil
	}
	nonces := map[string]string{}
	for {
		r, err := w.recv()
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		nonces[r.url] = r.nonce
		for _, m := range f.apply(r, asked, nonces) {
			if err := w.send(m); err != nil {
				break
			}
		}
	}
}

func dependentOn(url string) bool { return url == session.EndpointURL || url == session.RouteURL }

// apply takes a response in, and returns what to say then: the new names, and that it is accepted.
func (f *follower) apply(r told, asked map[string][]string, nonces map[string]string) []message {
	f.mu.Lock()
	defer f.mu.Unlock()
	held := f.held[r.url]
	wanted := func(name string) bool { return !dependentOn(r.url) || slices.Contains(asked[r.url], name) }
	for name, body := range r.bodies {
		if wanted(name) {
			held[name] = body
		}
	}
	for _, name := range r.removed {
		delete(held, name)
	}
	if f.sotw && !dependentOn(r.url) {
		maps.DeleteFunc(held, func(name string, _ []byte) bool { _, ok := r.bodies[name]; return !ok })
	}
	f.info[r.url] = r.version
	out := []message{{url: r.url, nonce: r.nonce, info: r.version, names: asked[r.url]}}
	url, ok := dependent[r.url]
	if !ok {
		return out
	}
	before, now := asked[url], f.names(url)
	if slices.Equal(before, now) {
		return out
	}
	asked[url] = now
	m := message{url: url, nonce: nonces[url], info: f.info[url], names: now}
	for _, name := range now {
		if !slices.Contains(before, name) {
			m.add = append(m.add, name)
		}
	}
	for _, name := range before {
		if !slices.Contains(now, name) {
			m.drop = append(m.drop, name)
			delete(f.held[url], name)
		}
	}
	if !f.sotw {
		m.nonce = ""
	}
	return append(out, m)
}

// differs says what the client holds that is not as it should be.
func (f *follower) differs(want map[string]map[string][]byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var wrong []error
	for url, held := range f.held {
		for name, body := range want[url] {
			if got, ok := held[name]; !ok {
				wrong = append(wrong, fmt.Errorf("%s: does not hold %s %s", f.node.GetId(), url, name))
			} else if versionOf(got) != versionOf(body) {
				wrong = append(wrong, fmt.Errorf("%s: holds an older %s %s", f.node.GetId(), url, name))
			}
		}
		for name := range held {
			if _, ok := want[url][name]; !ok {
				wrong = append(wrong, fmt.Errorf("%s: still holds %s %s", f.node.GetId(), url, name))
			}
		}
	}
	return errors.Join(wrong...)
}
