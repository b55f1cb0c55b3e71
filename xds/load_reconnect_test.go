package xds_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	reflectpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
)

// TestClientsThatComeBackWithTheirVersionsAreSentNothing has fifty reconnect with nothing changed, each
// with 40 upstreams of four types. What they are sent then is counted until a change arrives.
func TestClientsThatComeBackWithTheirVersionsAreSentNothing(t *testing.T) {
	const clients, upstreams, most = 50, 40, 1000
	c := startControl(t, func(cfg *xds.Config) { cfg.Linger = 10 * time.Millisecond })
	names := c.market(upstreams)
	var defaults []chain.Entry
	for _, name := range names {
		defaults = append(defaults, httpDefaults(name))
	}
	c.entries(chain.KindServiceDefaults, defaults...)
	var callers []*caller
	for i := range clients {
		callers = append(callers, callerOf(t, fmt.Sprintf("web-%d", i), false, names...))
	}
	end := c.calls(callers...)
	c.synced(clients, xds.StateSynced)
	c.number("s0", 1)
	c.told(callers, "s0", 1)
	for _, how := range []string{"while it is remembered", "when it is forgotten"} {
		end()
		testenv.Eventually(t, 10*time.Second, func() error {
			if sizes := c.server.Sizes(); sizes["streams"] > 0 || how == "when it is forgotten" && sizes["clients"] > 0 {
				return errors.New("the streams have not ended")
			}
			return nil
		})
		before := sum(callers)
		end = c.calls(callers...)
		c.asked(clients)
		n := callers[0].number("s0") + 1
		c.number("s0", n)
		c.told(callers, "s0", n)
		after := sum(callers)
		each := (after.bytes - before.bytes) / clients
		t.Logf("%s: %d bytes in %d responses to each, with one change", how, each, (after.responses-before.responses)/clients)
		if each > most {
			t.Errorf("%s: %d bytes to each, want %d at most", how, each, most)
		}
		// A wildcard is answered, if only by an empty response: one for clusters, and one for listeners.
		if r := after.responses - before.responses; r != 3*clients {
			t.Errorf("%s: %d responses, want two empty ones and the one of the change to each of %d clients", how, r, clients)
		}
	}
	end()
	c.forgotten()
}

// asked waits until so many clients have asked for each type.
func (c *control) asked(n int) {
	c.t.Helper()
	testenv.Eventually(c.t, 10*time.Second, func() error {
		asked := 0
		for _, p := range c.server.Proxies() {
			if len(p.Types) == 4 {
				asked++
			}
		}
		if asked != n {
			return fmt.Errorf("%d of %d clients have asked for all", asked, n)
		}
		return nil
	})
}

// number is the number that a client was told of a service last.
func (c *caller) number(service string) uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last[clusterOf(service)]
}

// besides serves the discovery services together with another, and returns a connection.
func besides(t *testing.T, register func(*grpc.Server)) *grpc.ClientConn {
	t.Helper()
	c := startControl(t, nil)
	g := grpc.NewServer(xds.ServerOptions()...)
	c.server.Register(g)
	register(g)
	addr, stop := serveOn(t, g)
	t.Cleanup(stop)
	return (&control{t: t, addr: addr}).dial()
}

func TestHealthPassesTheCodec(t *testing.T) {
	state := health.NewServer()
	conn := besides(t, func(g *grpc.Server) { healthpb.RegisterHealthServer(g, state) })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for _, want := range []healthpb.HealthCheckResponse_ServingStatus{healthpb.HealthCheckResponse_SERVING, healthpb.HealthCheckResponse_NOT_SERVING} {
		state.SetServingStatus("", want)
		got, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
		if err != nil || got.GetStatus() != want {
			t.Errorf("health: %v, %v", got, err)
		}
	}
	if _, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: "made.up"}); status.Code(err) != codes.NotFound {
		t.Errorf("the health of a service that does not exist: %v", err)
	}
}

// TestReflectionDescribesEveryService asks for the list of services, and for each as a client without its
// description would.
func TestReflectionDescribesEveryService(t *testing.T) {
	conn := besides(t, func(g *grpc.Server) { reflection.Register(g) })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	st, err := reflectpb.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(req *reflectpb.ServerReflectionRequest) *reflectpb.ServerReflectionResponse {
		t.Helper()
		if err := st.Send(req); err != nil {
			t.Fatal(err)
		}
		resp, err := st.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	list := ask(&reflectpb.ServerReflectionRequest{MessageRequest: &reflectpb.ServerReflectionRequest_ListServices{}})
	listed := map[string]bool{}
	for _, s := range list.GetListServicesResponse().GetService() {
		listed[s.GetName()] = true
	}
	services := []string{"envoy.service.discovery.v3.AggregatedDiscoveryService"}
	for _, a := range apis() {
		services = append(services, "envoy.service."+a.service)
	}
	for _, name := range services {
		resp := ask(&reflectpb.ServerReflectionRequest{
			MessageRequest: &reflectpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: name},
		})
		if !listed[name] || !describes(resp.GetFileDescriptorResponse().GetFileDescriptorProto(), name) {
			t.Errorf("%s: listed %v, described by %v", name, listed[name], resp.GetErrorResponse())
		}
	}
}

// describes reports whether one of the files declares the service, with methods.
func describes(files [][]byte, service string) bool {
	for _, raw := range files {
		file := &descriptorpb.FileDescriptorProto{}
		if proto.Unmarshal(raw, file) != nil {
			return false
		}
		for _, s := range file.GetService() {
			if file.GetPackage()+"."+s.GetName() == service && len(s.GetMethod()) > 0 {
				return true
			}
		}
	}
	return false
}
