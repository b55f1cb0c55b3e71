package xds_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/catenary-mesh/catenary/internal/bootstrap"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
	"github.com/catenary-mesh/catenary/xds/session"
)

// answer sends messages on a new stream and returns the status it ends with.
func (c *control) answer(conn *grpc.ClientConn, sotw bool, messages ...message) *status.Status {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	w, err := openWire(ctx, conn, sotw)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, m := range messages {
		if w.send(m) != nil {
			break // why is said by what is received
		}
	}
	for {
		if _, err := w.recv(); err != nil {
			return status.Convert(err)
		}
	}
}

// refused expects a status that says in few words what is wrong.
func refused(t *testing.T, st *status.Status, want string) {
	t.Helper()
	if st.Code() != codes.InvalidArgument || !strings.Contains(st.Message(), want) || len(st.Message()) > 1100 {
		t.Errorf("the stream ends as %s %.200q of %d bytes; want InvalidArgument and %q",
			st.Code(), st.Message(), len(st.Message()), want)
	}
}

func nodeWith(metadata *structpb.Value) *corev3.Node {
	return &corev3.Node{Id: "web-1", Cluster: "web", Metadata: &structpb.Struct{
		Fields: map[string]*structpb.Value{bootstrap.MetadataKey: metadata},
	}}
}

func value(t *testing.T, v any) *structpb.Value {
	t.Helper()
	out, err := structpb.NewValue(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// upstreamsOf is a metadata.catenary with the upstreams.
func upstreamsOf(upstreams any) map[string]any {
	return map[string]any{"service": "web", "upstreams": upstreams}
}

func TestANodeThatIsWrongIsRefused(t *testing.T) {
	var many []any
	for i := range 5000 {
		many = append(many, map[string]any{"service": "api", "bind_port": 1024 + i})
	}
	deep := any("deep")
	for range 3000 {
		deep = []any{deep}
	}
	one := func(u map[string]any) any { return upstreamsOf([]any{u}) }
	metadata := map[string]struct {
		value any
		want  string
	}{
		"null":                {nil, "the service has no name"},
		"a text":              {"web", "cannot unmarshal string"},
		"a number":            {1, "cannot unmarshal number"},
		"NaN":                 {math.NaN(), "metadata catenary"},
		"a list":              {[]any{}, "cannot unmarshal array"},
		"nothing":             {map[string]any{}, "the service has no name"},
		"a service no text":   {map[string]any{"service": 1}, "cannot unmarshal number"},
		"a service of a path": {map[string]any{"service": ".."}, `the service ".."`},
		"a service of 1 MiB":  {map[string]any{"service": strings.Repeat("s", 1<<20)}, "has 1048576 bytes, more than the 256 allowed"},
		"upstreams no list":   {upstreamsOf("api"), "cannot unmarshal string"},
		"upstreams of texts":  {upstreamsOf([]any{"api"}), "cannot unmarshal string"},
		"upstreams so deep":   {upstreamsOf(deep), "cannot unmarshal array"},
		"too many upstreams":  {upstreamsOf(many), "there are 5000 upstreams, more than the 1000"},
		"a port of a half":    {one(map[string]any{"service": "api", "bind_port": 1.5}), "cannot unmarshal number 1.5"},
		"a port of 1e300":     {one(map[string]any{"service": "api", "bind_port": 1e300}), "cannot unmarshal number 1e+300"},
		"a port of less":      {one(map[string]any{"service": "api", "bind_port": -1}), "upstreams[0]: the port -1"},
		"an upstream's slash": {one(map[string]any{"service": "../api", "bind_port": 1}), "upstreams[0]: the service"},
		"an address of 1 MiB": {
			one(map[string]any{"service": "api", "bind_port": 1, "bind_address": strings.Repeat("1", 1<<20)}), "upstreams[0]: the address",
		},
	}
	nodes := map[string]struct {
		node *corev3.Node
		want string
	}{
		"no node":             {nil, "node.id is empty"},
		"no ID":               {&corev3.Node{Cluster: "web"}, "node.id is empty"},
		"an ID of 1 MiB":      {&corev3.Node{Id: strings.Repeat("x", 1<<20)}, "has 1048576 bytes, more than the 1024 allowed"},
		"a NUL":               {&corev3.Node{Id: "web\x00"}, `node.id "web\x00"`},
		"an escape":           {&corev3.Node{Id: "web\x1b[2J"}, "cannot be printed"},
		"a new line":          {&corev3.Node{Id: "web\nlevel=error"}, "cannot be printed"},
		"the other direction": {&corev3.Node{Id: "web\u202e1"}, "cannot be printed"},
		"a path as service":   {&corev3.Node{Id: "web-1", Cluster: "../agent/self"}, `node.cluster: the service "../agent/self"`},
		"a service of 1 MiB":  {&corev3.Node{Id: "web-1", Cluster: strings.Repeat("x", 1<<20)}, "node.cluster: the service"},
		"a node name of 1 MiB": {&corev3.Node{Id: "web-1", Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{
			"node_name": structpb.NewStringValue(strings.Repeat("x", 1<<20)),
		}}}, "node.metadata.node_name"},
	}
	for name, m := range metadata {
		nodes["metadata of "+name] = struct {
			node *corev3.Node
			want string
		}{nodeWith(value(t, m.value)), m.want}
	}
	forms(t, func(t *testing.T, sotw bool) {
		c := startControl(t, nil)
		c.load("api")
		conn := c.dial()
		for name, n := range nodes {
			t.Run(name, func(t *testing.T) {
				refused(t, c.answer(conn, sotw, message{node: n.node, url: session.ClusterURL}), n.want)
			})
		}
		c.forgotten()
	})
}

// serve starts a follower that ends with the test, or when the function is called.
func (c *control) serve(node *corev3.Node, sotw bool) (f *follower, end func()) {
	f = newFollower(node, sotw)
	conn := c.dial()
	ctx, cancel := context.WithCancel(c.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = f.follow(ctx, conn)
	}()
	end = func() {
		cancel()
		<-ended
	}
	c.t.Cleanup(end)
	return f, end
}

// holds waits until a follower has a number of resources of a type.
func (f *follower) holds(t *testing.T, url string, n int) {
	t.Helper()
	testenv.Eventually(t, 10*time.Second, func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if got := len(f.held[url]); got != n {
			return fmt.Errorf("%s holds %d of %s, want %d", f.node.GetId(), got, url, n)
		}
		return nil
	})
}

func port(service string, port int) bootstrap.Upstream {
	return bootstrap.Upstream{Service: service, BindPort: port}
}

// closed declares that there is nothing but what was loaded.
func (c *control) closed() { c.store.Commit((*facts.Tx).CloseWorld) }

func TestOddIDsAreServedAndShown(t *testing.T) {
	forms(t, func(t *testing.T, sotw bool) {
		c := startControl(t, nil)
		c.load("api")
		c.closed()
		for _, id := range []string{
			"../../etc/passwd", "..", "a/b", "a#1", "a b", "%2e%2e", "веб-1 🐙", strings.Repeat("x", 1024),
		} {
			f, end := c.serve(declaring(t, id, "web", port("api", 9191)), sotw)
			f.holds(t, session.EndpointURL, 1)
			c.proxy(id, xds.StateSynced)
			end()
		}
		c.forgotten()
	})
}

func TestTwoStreamsOfOneIDAreBothServedAndShown(t *testing.T) {
	forms(t, func(t *testing.T, sotw bool) {
		c := startControl(t, nil)
		c.load("api", "db", "secret")
		c.closed()
		one, end := c.serve(declaring(t, "web-1", "web", port("api", 9191), port("db", 9192)), sotw)
		other, endOther := c.serve(declaring(t, "web-1", "thief", port("secret", 9193)), !sotw)
		one.holds(t, session.ClusterURL, 2)
		other.holds(t, session.ClusterURL, 1)
		services := map[string]bool{}
		for _, p := range c.server.Proxies() {
			services[p.Service] = true
		}
		if !services["web"] || !services["thief"] || len(services) != 2 {
			t.Errorf("shown are the streams of %v", services)
		}
		endOther()
		testenv.Eventually(t, 5*time.Second, func() error {
			if n := len(c.server.Proxies()); n != 1 {
				return fmt.Errorf("%d streams are shown, want the one that is left", n)
			}
			return nil
		})
		c.instances("db", at("db", &testenv.Backend{Port: 1}, "v1", facts.StatusPassing))
		testenv.Eventually(t, 5*time.Second, func() error {
			one.mu.Lock()
			defer one.mu.Unlock()
			for _, body := range one.held[session.EndpointURL] {
				if strings.Contains(string(body), "127.0.0.1") {
					return nil
				}
			}
			return fmt.Errorf("the one that is left is not told of the new instance")
		})
		end()
		c.forgotten()
	})
}

func TestRequestsBeyondTheBoundsAreRefused(t *testing.T) {
	var names []string
	for i := range 20_000 {
		names = append(names, fmt.Sprintf("name-%d", i))
	}
	node := declaring(t, "web-1", "web", port("api", 9191))
	forms(t, func(t *testing.T, sotw bool) {
		c := startControl(t, nil)
		c.load("api")
		c.closed()
		conn := c.dial()
		ask := func(url string, names ...string) message {
			return message{node: node, url: url, names: names, add: names}
		}
		for name, tt := range map[string]struct {
			messages []message
			want     string
		}{
			"a name of 1 MiB":      {[]message{ask(session.RouteURL, strings.Repeat("x", 1<<20))}, "more than the 1024 allowed"},
			"a NUL":                {[]message{ask(session.RouteURL, "x\x00y")}, "holds a NUL"},
			"no name":              {[]message{ask(session.RouteURL, "")}, "is empty"},
			"no type":              {[]message{ask("")}, "no type_url"},
			"a type of 1 MiB":      {[]message{ask(strings.Repeat("x", 1<<20))}, "type_url has 1048576 bytes, more than the 1024 allowed"},
			"a type of 1 MiB late": {[]message{ask(session.ClusterURL), ask(strings.Repeat("x", 1<<20))}, "type_url has"},
		} {
			t.Run(name, func(t *testing.T) { refused(t, c.answer(conn, sotw, tt.messages...), tt.want) })
		}
		for name, tt := range map[string]struct {
			messages []message
			want     string
		}{
			"20,000 names": {
				[]message{ask(session.EndpointURL, names...)}, "the stream asks for 20000 names, more than the 10000 allowed",
			},
			"20,000 names of several types": {
				[]message{ask(session.EndpointURL, names[:9000]...), ask(session.RouteURL, names[9000:18000]...)}, "18000 names",
			},
		} {
			t.Run(name, func(t *testing.T) {
				st := c.answer(conn, sotw, tt.messages...)
				if st.Code() != codes.ResourceExhausted || !strings.Contains(st.Message(), tt.want) {
					t.Errorf("the stream ends as %v, want %q", st, tt.want)
				}
			})
		}
		st := c.answer(conn, sotw, ask(session.RouteURL, strings.Repeat("x", 5<<20)))
		if st.Code() != codes.ResourceExhausted {
			t.Errorf("a message of 5 MiB ends the stream as %v", st)
		}
		c.forgotten()
	})
}

func TestNamesThatAreNeverKnownCostTheirStreamOnly(t *testing.T) {
	forms(t, func(t *testing.T, sotw bool) {
		c := startControl(t, nil)
		c.load("api")
		c.closed()
		f, end := c.serve(declaring(t, "web-1", "web", port("api", 9191)), sotw)
		f.holds(t, session.EndpointURL, 1)
		needs, _ := c.store.Needs()

		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w, err := openWire(ctx, c.dial(), sotw)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for i := range 9_000 {
			names = append(names, fmt.Sprintf("never-%d", i))
		}
		node := declaring(t, "curious", "web", port("api", 9191))
		if err := w.send(message{node: node, url: session.EndpointURL, names: names, add: names}); err != nil {
			t.Fatal(err)
		}
		r, err := w.recv()
		if err != nil {
			t.Fatal(err)
		}
		if n := len(r.removed) + len(r.bodies); n != len(names) {
			t.Errorf("%d names are answered, want all %d", n, len(names))
		}
		if after, _ := c.store.Needs(); len(after) != len(needs) {
			t.Errorf("names made needs: %v, then %v", needs, after)
		}
		cancel()
		end()
		c.forgotten()
	})
}
