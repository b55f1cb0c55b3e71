package xds_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
	"github.com/catenary-mesh/catenary/xds/session"
)

// ownService is a discovery service of one type.
type ownService struct{ url, path, things string }

// there is the one resource of each type that there is; of some there is none.
var there = map[string]string{
	session.ClusterURL: apiCluster, session.EndpointURL: apiCluster,
	session.ListenerURL: "api:127.0.0.1:9191", session.RouteURL: "api",
}

// names are one that does not exist, and the one that does where there is one.
func (s ownService) names() []string {
	if name := there[s.url]; name != "" {
		return []string{"nothing", name}
	}
	return []string{"nothing"}
}

// eachService tests all discovery services of one type, with a control plane that has a resource of each
// type that there is.
func eachService(t *testing.T, f func(t *testing.T, s ownService, conn *grpc.ClientConn)) {
	c := startControl(t, nil)
	c.load("api")
	c.entries(chain.KindServiceDefaults, httpDefaults("api"))
	c.instances("api", at("api", &testenv.Backend{Port: 1}, "v1", facts.StatusPassing))
	conn := c.dial()
	for _, s := range []ownService{
		{session.ClusterURL, "/envoy.service.cluster.v3.ClusterDiscoveryService/", "Clusters"},
		{session.EndpointURL, "/envoy.service.endpoint.v3.EndpointDiscoveryService/", "Endpoints"},
		{session.ListenerURL, "/envoy.service.listener.v3.ListenerDiscoveryService/", "Listeners"},
		{session.RouteURL, "/envoy.service.route.v3.RouteDiscoveryService/", "Routes"},
		{session.SecretURL, "/envoy.service.secret.v3.SecretDiscoveryService/", "Secrets"},
		{session.ExtensionURL, "/envoy.service.extension.v3.ExtensionConfigDiscoveryService/", "ExtensionConfigs"},
		{session.VirtualHostURL, "/envoy.service.route.v3.VirtualHostDiscoveryService/", "VirtualHosts"},
	} {
		t.Run(s.things, func(t *testing.T) { f(t, s, conn) })
	}
}

// ask opens a stream and sends the first request.
func ask(t *testing.T, conn *grpc.ClientConn, method string, first any) grpc.ClientStream {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	st, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	if err == nil {
		err = st.SendMsg(first)
	}
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func TestEachTypeHasADeltaServiceOfItsOwn(t *testing.T) {
	eachService(t, func(t *testing.T, s ownService, conn *grpc.ClientConn) {
		names := s.names()
		st := ask(t, conn, s.path+"Delta"+s.things, &discoveryv3.DeltaDiscoveryRequest{ // the service says the type
			Node: declaring(t, "web-1", "web", port("api", 9191)), ResourceNamesSubscribe: names,
		})
		m := &discoveryv3.DeltaDiscoveryResponse{}
		if err := st.RecvMsg(m); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range m.GetResources() {
			got = append(got, r.GetName())
		}
		if m.GetTypeUrl() != s.url || !slices.Equal(got, names[1:]) || !slices.Equal(m.GetRemovedResources(), names[:1]) {
			t.Errorf("asked for %v, got %v", names, m)
		}
		wrongType(t, st, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: "type.googleapis.com/another.Type"}, m)
	})
}

func TestEachTypeHasAServiceOfItsOwnForTheStateOfTheWorld(t *testing.T) {
	eachService(t, func(t *testing.T, s ownService, conn *grpc.ClientConn) {
		name := there[s.url]
		if s.url == session.VirtualHostURL {
			return // there is none
		}
		st := ask(t, conn, s.path+"Stream"+s.things, &discoveryv3.DiscoveryRequest{
			Node: declaring(t, "web-1", "web", port("api", 9191)), ResourceNames: s.names(),
		})
		m := &discoveryv3.DiscoveryResponse{}
		if name != "" {
			if err := st.RecvMsg(m); err != nil {
				t.Fatal(err)
			}
			if m.GetTypeUrl() != s.url || !has(m.GetResources(), s.url, name) {
				t.Errorf("asked for %s, got %v", name, m)
			}
		}
		wrongType(t, st, &discoveryv3.DiscoveryRequest{TypeUrl: "type.googleapis.com/another.Type"}, m)
	})
}

// wrongType holds a stream of one type to it.
func wrongType(t *testing.T, st grpc.ClientStream, request, response any) {
	t.Helper()
	if err := st.SendMsg(request); err != nil {
		t.Fatal(err)
	}
	if err := st.RecvMsg(response); status.Code(err) != codes.InvalidArgument {
		t.Errorf("another type was answered with %v, %v", response, err)
	}
}

func has(resources []*anypb.Any, url, name string) bool {
	return slices.ContainsFunc(resources, func(r *anypb.Any) bool {
		return r.GetTypeUrl() == url && nameOf(url, r.GetValue()) == name
	})
}

func TestWhatIsFetchedIsAnsweredOnceIncludingThatItDoesNotExist(t *testing.T) {
	eachService(t, func(t *testing.T, s ownService, conn *grpc.ClientConn) {
		if s.url == session.VirtualHostURL {
			return // it cannot be fetched
		}
		fetch := func(names ...string) *discoveryv3.DiscoveryResponse {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			m := &discoveryv3.DiscoveryResponse{}
			err := conn.Invoke(ctx, s.path+"Fetch"+s.things, &discoveryv3.DiscoveryRequest{
				Node: declaring(t, "web-1", "web", port("api", 9191)), ResourceNames: names,
			}, m)
			if err != nil {
				t.Errorf("fetch %v: %v", names, err)
			}
			if m.GetTypeUrl() != s.url {
				t.Errorf("fetch %v: the type is %q", names, m.GetTypeUrl())
			}
			return m
		}
		if name := there[s.url]; name != "" {
			if m := fetch(name); len(m.GetResources()) != 1 || !has(m.GetResources(), s.url, name) {
				t.Errorf("got %v", m)
			}
		}
		m := fetch("nothing")
		if s.url == session.EndpointURL { // that there are none is said by an assignment without any
			if len(m.GetResources()) != 1 || !has(m.GetResources(), s.url, "nothing") {
				t.Errorf("got %v", m)
			}
		} else if len(m.GetResources()) != 0 {
			t.Errorf("got %v", m)
		}
		fetch()
	})
}

func TestWhatIsFetchedIsAnsweredWhenItIsKnown(t *testing.T) {
	c := startControl(t, nil)
	c.load("api")
	conn := c.dial()
	answered := make(chan error, 1)
	m := &discoveryv3.DiscoveryResponse{}
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		answered <- conn.Invoke(ctx, "/envoy.service.endpoint.v3.EndpointDiscoveryService/FetchEndpoints", &discoveryv3.DiscoveryRequest{
			Node: declaring(t, "web-1", "web", port("api", 9191)), ResourceNames: []string{apiCluster},
		}, m)
	}()
	testenv.Eventually(t, 10*time.Second, func() error {
		if list := c.of("web-1"); len(list) != 1 || list[0].State != xds.StatePending {
			return fmt.Errorf("the client does not wait: %+v", list)
		}
		return nil
	})
	c.instances("api", at("api", &testenv.Backend{Port: 1}, "v1", facts.StatusPassing))
	if err := <-answered; err != nil || !has(m.GetResources(), session.EndpointURL, apiCluster) {
		t.Errorf("got %v, %v", m, err)
	}
}
