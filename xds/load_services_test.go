package xds_test

import (
	"context"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/xds/session"
)

// api is a discovery service of one type, with what a client of the upstream api finds there.
type api struct {
	service, resource string // the names of the service, and of its methods
	url               string
	name              string // of what there is; empty when there is nothing
	deltaOnly         bool
	empty             bool // in the state of the world an absent name has an empty body
}

func apis() []api {
	return []api{
		{service: "cluster.v3.ClusterDiscoveryService", resource: "Clusters", url: session.ClusterURL, name: apiCluster},
		{service: "endpoint.v3.EndpointDiscoveryService", resource: "Endpoints", url: session.EndpointURL, name: apiCluster, empty: true},
		{service: "listener.v3.ListenerDiscoveryService", resource: "Listeners", url: session.ListenerURL, name: "api:127.0.0.1:9191"},
		{service: "route.v3.RouteDiscoveryService", resource: "Routes", url: session.RouteURL, name: "api"},
		{service: "route.v3.VirtualHostDiscoveryService", resource: "VirtualHosts", url: session.VirtualHostURL, deltaOnly: true},
		{service: "secret.v3.SecretDiscoveryService", resource: "Secrets", url: session.SecretURL},
		{service: "extension.v3.ExtensionConfigDiscoveryService", resource: "ExtensionConfigs", url: session.ExtensionURL},
	}
}

func (a api) method(form string) string {
	return "/envoy.service." + a.service + "/" + form + a.resource
}

// stream opens a stream of a service by its name.
func (c *control) stream(ctx context.Context, conn *grpc.ClientConn, a api, sotw bool) wire {
	c.t.Helper()
	form := "Delta"
	if sotw {
		form = "Stream"
	}
	st, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, a.method(form))
	if err != nil {
		c.t.Fatal(err)
	}
	if sotw {
		return wire{sotw: &grpc.GenericClientStream[discoveryv3.DiscoveryRequest, discoveryv3.DiscoveryResponse]{ClientStream: st}}
	}
	return wire{delta: &grpc.GenericClientStream[discoveryv3.DeltaDiscoveryRequest, discoveryv3.DeltaDiscoveryResponse]{ClientStream: st}}
}

// served is a control plane with one upstream of all types.
func served(t *testing.T) *control {
	c := startControl(t, nil)
	c.load("api")
	c.entries(chain.KindServiceDefaults, httpDefaults("api"))
	c.number("api", 1)
	c.closed()
	return c
}

// TestEveryServiceStreamsItsType asks each for what there is and for what there is not, with the type named
// and not.
func TestEveryServiceStreamsItsType(t *testing.T) {
	c := served(t)
	conn := c.dial()
	node := declaring(t, "web-1", "web", port("api", 9191))
	for _, a := range apis() {
		for _, url := range []string{"", a.url} {
			t.Run(a.resource+"/"+url, func(t *testing.T) {
				forms(t, func(t *testing.T, sotw bool) {
					if sotw && a.deltaOnly {
						return
					}
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					defer cancel()
					w := c.stream(ctx, conn, a, sotw)
					names := []string{"absent"}
					if a.name != "" {
						names = append(names, a.name)
					}
					if err := w.send(message{node: node, url: url, names: names, add: names}); err != nil {
						t.Fatal(err)
					}
					if sotw && a.name == "" {
						return // nothing is said of what does not exist
					}
					r, err := w.recv()
					if err != nil || r.url != a.url {
						t.Fatalf("answered %+v, %v", r, err)
					}
					if _, ok := r.bodies[a.name]; a.name != "" && !ok {
						t.Errorf("%s is not among %v", a.name, r.bodies)
					}
					if _, ok := r.bodies["absent"]; sotw && ok != a.empty {
						t.Errorf("absent in the state of the world: %v", ok)
					}
					if !sotw && (len(r.removed) != 1 || r.removed[0] != "absent") {
						t.Errorf("removed %v", r.removed)
					}
				})
			})
		}
	}
}

func TestEveryServiceRefusesOtherTypes(t *testing.T) {
	c := served(t)
	conn := c.dial()
	node := declaring(t, "web-1", "web", port("api", 9191))
	for i, a := range apis() {
		other := apis()[(i+1)%len(apis())].url
		for _, url := range []string{other, "type.googleapis.com/made.up"} {
			t.Run(a.resource+"/"+url, func(t *testing.T) {
				forms(t, func(t *testing.T, sotw bool) {
					if sotw && a.deltaOnly {
						return
					}
					w := c.stream(t.Context(), conn, a, sotw)
					if err := w.send(message{node: node, url: url}); err != nil {
						t.Fatal(err)
					}
					_, err := w.recv()
					if st := status.Convert(err); st.Code() != codes.InvalidArgument || !strings.Contains(st.Message(), a.url) {
						t.Errorf("ends as %v", err)
					}
				})
				if a.deltaOnly {
					return
				}
				err := conn.Invoke(t.Context(), a.method("Fetch"), &discoveryv3.DiscoveryRequest{Node: node, TypeUrl: url}, &discoveryv3.DiscoveryResponse{})
				if st := status.Convert(err); st.Code() != codes.InvalidArgument || !strings.Contains(st.Message(), a.url) {
					t.Errorf("the fetch ends as %v", err)
				}
			})
		}
	}
	c.forgotten()
}

// TestEveryServiceIsFetchedFrom asks for all, for what there is, for what there is not, and for both.
func TestEveryServiceIsFetchedFrom(t *testing.T) {
	c := served(t)
	conn := c.dial()
	node := declaring(t, "web-1", "web", port("api", 9191))
	for _, a := range apis() {
		if a.deltaOnly {
			continue
		}
		for what, names := range map[string][]string{"all": nil, "present": {a.name}, "absent": {"absent"}, "both": {"absent", a.name}} {
			if a.name == "" && (what == "present" || what == "both") {
				continue
			}
			t.Run(a.resource+"/"+what, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				out := &discoveryv3.DiscoveryResponse{}
				req := &discoveryv3.DiscoveryRequest{Node: node, ResourceNames: names, VersionInfo: "old", ResponseNonce: "old"}
				if err := conn.Invoke(ctx, a.method("Fetch"), req, out); err != nil {
					t.Fatal(err)
				}
				got := map[string]bool{}
				for _, r := range out.GetResources() {
					got[nameOf(a.url, r.GetValue())] = true
				}
				wildcard := what == "all" && (a.url == session.ClusterURL || a.url == session.ListenerURL)
				wantName := a.name != "" && (what == "present" || what == "both" || wildcard)
				wantAbsent := a.empty && (what == "absent" || what == "both")
				if out.GetTypeUrl() != a.url || got[a.name] != wantName || got["absent"] != wantAbsent {
					t.Errorf("fetched %s %v", out.GetTypeUrl(), got)
				}
			})
		}
	}
	c.forgotten()
}

// TestAFetchOfWhatIsNotKnownYetSaysSo has it end with the patience of its client.
func TestAFetchOfWhatIsNotKnownYetSaysSo(t *testing.T) {
	c := startControl(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	node := declaring(t, "web-1", "web", port("api", 9191))
	err := c.dial().Invoke(ctx, apis()[0].method("Fetch"), &discoveryv3.DiscoveryRequest{Node: node}, &discoveryv3.DiscoveryResponse{})
	if code := status.Code(err); code != codes.DeadlineExceeded && code != codes.Unavailable {
		t.Errorf("ends as %v", err)
	}
	c.forgotten()
}
