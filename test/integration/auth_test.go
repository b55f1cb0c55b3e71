package integration_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
)

// revocation is how long a stream may outlive its right.
const revocation = 60 * time.Second

// caller is a client whose stream asks for all clusters.
type caller struct {
	t      *testing.T
	stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
}

// call opens a stream of a proxy of a service with upstreams.
func call(t *testing.T, addr, token, service string, creds credentials.TransportCredentials, upstreams ...string) *caller {
	t.Helper()
	if creds == nil {
		creds = insecure.NewCredentials()
	}
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*revocation)
	t.Cleanup(func() {
		cancel()
		_ = conn.Close()
	})
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "x-consul-token", token)
	}
	list := make([]any, 0, len(upstreams))
	for i, u := range upstreams {
		list = append(list, map[string]any{"service": u, "bind_port": 10000 + i})
	}
	declared, err := structpb.NewStruct(map[string]any{"catenary": map[string]any{"service": service, "upstreams": list}})
	if err != nil {
		t.Fatal(err)
	}
	st, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx, grpc.WaitForReady(creds.Info().SecurityProtocol == "insecure"))
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Send(&discoveryv3.DeltaDiscoveryRequest{
		Node:                   &corev3.Node{Id: service + "-1", Metadata: declared},
		TypeUrl:                "type.googleapis.com/envoy.config.cluster.v3.Cluster",
		ResourceNamesSubscribe: []string{"*"},
	}); err != nil {
		t.Fatal(err)
	}
	return &caller{t: t, stream: st}
}

// clusters returns the clusters of the next answer, and accepts it.
func (c *caller) clusters() []string {
	c.t.Helper()
	m, err := c.stream.Recv()
	if err != nil {
		c.t.Fatalf("not served: %v", err)
	}
	if err := c.stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: m.GetTypeUrl(), ResponseNonce: m.GetNonce()}); err != nil {
		c.t.Fatal(err)
	}
	names := []string{}
	for _, r := range m.GetResources() {
		name, _, _ := strings.Cut(r.GetName(), ".")
		names = append(names, name)
	}
	return names
}

// gets waits for clusters, however many answers they come in, and accepts no others.
func (c *caller) gets(want ...string) {
	c.t.Helper()
	for missing := slices.Clone(want); len(missing) > 0; {
		for _, name := range c.clusters() {
			at := slices.Index(missing, name)
			if at < 0 {
				c.t.Fatalf("served %s, want %v", name, want)
			}
			missing = slices.Delete(missing, at, at+1)
		}
	}
}

// ends expects that the stream ends with a status, before anything else is said.
func (c *caller) ends(code codes.Code, has string) {
	c.t.Helper()
	m, err := c.stream.Recv()
	if st := status.Convert(err); err == nil || st.Code() != code || !strings.Contains(st.Message(), has) {
		c.t.Errorf("got %v and %v, want %s with %q", m, err, code, has)
	}
}

// startACLs starts a Consul with ACLs, and a catenary with a token that may read everything.
func startACLs(t *testing.T, options ...testenv.ConsulOption) *fleet {
	consul := testenv.StartConsul(t, append(options, testenv.WithACL())...)
	f := startGuarded(t, false, consul.NewToken(readAll), consul)
	testenv.Eventually(t, patience, f.catenary.Ready)
	for _, name := range []string{"api", "db"} {
		consul.RegisterService(testenv.Service{Name: name, Port: 80})
	}
	return f
}

const (
	webRights     = `service "web" { policy = "write" } service "api" { policy = "read" }`
	webMoreRights = webRights + ` service "db" { policy = "read" }`
)

func TestAStreamIsServedByWhatItsTokenMay(t *testing.T) {
	t.Parallel()
	f := startACLs(t)
	web, other := f.consul.NewToken(webRights), f.consul.NewToken(`service "other" { policy = "write" }`)
	addr := f.catenary.GRPCAddr

	call(t, addr, "", "web", nil, "api").ends(codes.Unauthenticated, `service:write on "web"`)
	call(t, addr, "7d1ac0de-0000-4000-8000-000000000001", "web", nil, "api").ends(codes.Unauthenticated, "does not know the token")
	call(t, addr, other, "web", nil, "api").ends(codes.PermissionDenied, `lacks service:write on "web"`)
	call(t, addr, web, "other", nil, "api").ends(codes.PermissionDenied, `lacks service:write on "other"`)
	call(t, addr, web, "web", nil, "api").gets("api")

	// One upstream may not be read, until it may.
	served := call(t, addr, web, "web", nil, "api", "db")
	served.gets("api")
	testenv.Eventually(t, patience, func() error {
		_, text, err := testenv.Get("http://"+f.catenary.AdminAddr+"/api/v1/proxies", nil)
		if err == nil && !strings.Contains(text, `service:read on \"db\"`) {
			err = fmt.Errorf("nothing says why db is not served: %s", text)
		}
		return err
	})
	f.consul.SetPolicy(web, webMoreRights)
	served.gets("db")

	log := f.catenary.Log()
	for _, want := range []string{"a client was refused", "proxy=web-1", "address=127.0.0.1:", "PermissionDenied", "Unauthenticated"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %q", want)
		}
	}
	for _, secret := range []string{web, other, "7d1ac0de"} {
		if strings.Contains(log, secret) {
			t.Error("the log holds a token")
		}
	}
}

func TestAStreamEndsWhenItsTokenLosesItsRight(t *testing.T) {
	t.Parallel()
	f := startACLs(t)
	deleted, cut, kept := f.consul.NewToken(webRights), f.consul.NewToken(webRights), f.consul.NewToken(webRights)
	streams := map[string]*caller{}
	for _, token := range []string{deleted, cut, kept} {
		streams[token] = call(t, f.catenary.GRPCAddr, token, "web", nil, "api")
		streams[token].gets("api")
	}
	f.consul.DeleteToken(deleted)
	f.consul.SetPolicy(cut, `service "api" { policy = "read" }`)
	start := time.Now()
	streams[deleted].ends(codes.Unauthenticated, "does not know the token")
	streams[cut].ends(codes.PermissionDenied, `lacks service:write on "web"`)
	if d := time.Since(start); d > revocation {
		t.Errorf("the streams ended after %s", d)
	}
	if log := f.catenary.Log(); strings.Count(log, "a client is not served any longer") != 2 || strings.Contains(log, deleted) {
		t.Errorf("the log does not tell of both ends, or tells a token:\n%s", log)
	}
	proxy(t, f.catenary, "web-1", xds.StateSynced) // the third goes on
}

func TestWhileConsulIsAwayOnlySeenTokensAreServed(t *testing.T) {
	t.Parallel()
	f := startACLs(t, testenv.WithDataDir())
	seen, unseen := f.consul.NewToken(webRights), f.consul.NewToken(webRights)
	stream := call(t, f.catenary.GRPCAddr, seen, "web", nil, "api")
	stream.gets("api")
	f.consul.Stop()
	call(t, f.catenary.GRPCAddr, unseen, "web", nil, "api").ends(codes.Unavailable, "try again")
	call(t, f.catenary.GRPCAddr, seen, "web", nil, "api").gets("api")
	f.consul.Restart()
	testenv.Eventually(t, revocation, func() error {
		return trial(t, f.catenary.GRPCAddr, unseen, "web")
	})
	f.consul.DeleteToken(seen)
	stream.ends(codes.Unauthenticated, "does not know the token")
}

// trial returns how a stream that may be refused ends, or nil when it is served.
func trial(t *testing.T, addr, token, service string) error {
	_, err := call(t, addr, token, service, nil, "api").stream.Recv()
	return err
}

func TestWithoutACLsEveryClientIsAdmitted(t *testing.T) {
	t.Parallel()
	f := startFleet(t, false)
	f.consul.RegisterService(testenv.Service{Name: "api", Port: 80})
	for _, token := range []string{"", "any"} {
		call(t, f.catenary.GRPCAddr, token, "web", nil, "api").gets("api")
	}
	if n := strings.Count(f.catenary.Log(), "ACLs are off in Consul"); n != 1 {
		t.Errorf("it is said %d times that everyone is admitted", n)
	}
}

// writeServices are the rights of a catenary that has certificates signed.
const writeServices = `service_prefix "" { policy = "write" } node_prefix "" { policy = "read" } agent_prefix "" { policy = "read" }`

func TestAnEnvoyIsServedByItsToken(t *testing.T) {
	t.Parallel()
	consul := testenv.StartConsul(t, testenv.WithACL())
	// To have certificates signed takes the right to write services.
	f := startGuarded(t, false, consul.NewToken(writeServices), consul)
	testenv.Eventually(t, patience, f.catenary.Ready)
	f.http("api")
	f.http("web")
	f.consul.WriteEntry("Kind = \"service-intentions\"\nName = \"*\"\nSources { Name = \"*\" Action = \"allow\" }")
	plain, mesh := testenv.StartBackend(t, "plain"), testenv.StartBackend(t, "mesh")
	f.withSidecar("api", plain.Port, mesh)
	token := f.consul.NewToken(webRights)

	direct, up := port(t, "api")
	f.token = token
	f.envoy("web", up).WaitReady()
	answers(t, direct, "plain")

	// As Consul's own command line starts a registered sidecar.
	bind := testenv.FreePort(t)
	f.withSidecar("web", testenv.FreePort(t), plain, fmt.Sprintf(`{ destination_name = "api", local_bind_port = %d }`, bind))
	for _, service := range []string{"api", "web"} {
		own := f.consul.NewToken(fmt.Sprintf(`
service %q { policy = "write" } service "%[1]s-sidecar-proxy" { policy = "write" }
service_prefix "" { policy = "read" } node_prefix "" { policy = "read" } agent_prefix "" { policy = "read" }`, service))
		f.sidecar(service, "-token", own)
	}
	answers(t, bind, "mesh")
	if code, _, err := testenv.Get(fmt.Sprintf("http://127.0.0.1:%d/", direct), nil); err != nil || code != http.StatusOK {
		t.Errorf("%d, %v", code, err)
	}
}
