// Package mesh_test runs sidecars that catenary serves beside sidecars that Consul's own server does, in one
// mesh.
package mesh_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a change may take to arrive on a busy machine.
const patience = 20 * time.Second

// server is who serves a sidecar.
type server int

const (
	byCatenary server = iota
	byConsul
)

// mesh is a Consul, a catenary that follows it, and the services of a mesh.
type mesh struct {
	t        *testing.T
	consul   *testenv.Consul
	catenary *testenv.Catenary
	members  []*member
}

// member is a service with its sidecar.
type member struct {
	name, protocol string
	server         server
	port           int            // of the service
	public         int            // of the sidecar
	ports          map[string]int // at which its sidecar listens for the others
	token          string
	status         string // of the only check
	envoy          *testenv.Envoy
}

// startMesh starts services of the protocols, all of which have all others as upstreams.
func startMesh(t *testing.T, options []testenv.ConsulOption, members ...*member) *mesh {
	t.Helper()
	m := newMesh(t, options, members...)
	m.serve(m.consul.Env(), "--consul-grpc-addr", m.consul.GRPCAddr())
	m.sidecars()
	return m
}

// newMesh starts a Consul and the services, and registers these with their sidecars.
func newMesh(t *testing.T, options []testenv.ConsulOption, members ...*member) *mesh {
	t.Helper()
	m := &mesh{t: t, consul: testenv.StartConsul(t, options...), members: members}
	if m.consul.Token() != "" {
		m.consul.WriteEntry(everyoneMay)
	}
	for _, to := range members {
		to.public, to.ports, to.status = testenv.FreePort(t), map[string]int{}, api.HealthPassing
		to.port = startService(t, to.name, to.protocol)
		m.consul.WriteEntry(fmt.Sprintf("Kind = \"service-defaults\"\nName = %q\nProtocol = %q", to.name, to.protocol))
	}
	for _, from := range members {
		if m.consul.Token() != "" {
			from.token = m.tokenOf(from.name)
		}
		m.register(from, from.name)
	}
	return m
}

// serve starts the catenary that follows Consul.
func (m *mesh) serve(env []string, args ...string) {
	m.t.Helper()
	m.catenary = testenv.StartCatenary(m.t, env, append([]string{"--consul-addr", m.consul.HTTPAddr()}, args...)...)
	testenv.Eventually(m.t, patience, m.catenary.Ready)
}

// sidecars starts the Envoys of all services.
func (m *mesh) sidecars() {
	m.t.Helper()
	for _, of := range m.members {
		of.envoy = testenv.StartEnvoy(m.t, m.bootstrap(of, of.name), testenv.WithDefaultDrain())
	}
}

// everyoneMay lets all services talk where the default is to deny.
const everyoneMay = `
Kind = "service-intentions"
Name = "*"
Sources { Name = "*" Action = "allow" }`

// tokenOf makes a token as the sidecar of a service needs it.
func (m *mesh) tokenOf(service string) string {
	m.t.Helper()
	return m.consul.NewToken(fmt.Sprintf(`
service %q { policy = "write" }
service "%s-sidecar-proxy" { policy = "write" }
service_prefix "" { policy = "read" }
node_prefix "" { policy = "read" }`, service, service))
}

// startService starts what answers with its name, and returns its port.
func startService(t *testing.T, name, protocol string) int {
	t.Helper()
	switch protocol {
	case "tcp":
		return testenv.StartTCPBackend(t, name).Port
	case "grpc":
		return startGRPC(t, name)
	}
	return testenv.StartBackend(t, name).Port
}

// startGRPC starts a server that knows the health of the service of its name.
func startGRPC(t *testing.T, name string) int {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	known := health.NewServer()
	known.SetServingStatus(name, grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(s, known)
	done := make(chan error, 1)
	go func() { done <- s.Serve(lis) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return lis.Addr().(*net.TCPAddr).Port
}

// register registers an instance of a service, its sidecar, and all other services as the upstreams of that.
func (m *mesh) register(from *member, id string) {
	m.t.Helper()
	var upstreams []api.Upstream
	for _, to := range m.members {
		if to.name == from.name {
			continue
		}
		if from.ports[to.name] == 0 {
			from.ports[to.name] = testenv.FreePort(m.t)
		}
		upstreams = append(upstreams, api.Upstream{DestinationName: to.name, LocalBindPort: from.ports[to.name]})
	}
	err := m.consul.Client().Agent().ServiceRegister(&api.AgentServiceRegistration{
		ID: id, Name: from.name, Port: from.port, Address: "127.0.0.1",
		Connect: &api.AgentServiceConnect{SidecarService: &api.AgentServiceRegistration{
			Address: "127.0.0.1", Port: from.public,
			// Consul's own looks whether the sidecar listens, every 10 s only.
			Checks: api.AgentServiceChecks{{CheckID: "check-" + id, TTL: "1h", Status: from.status}},
			Proxy:  &api.AgentServiceConnectProxyConfig{Upstreams: upstreams},
		}},
	})
	if err != nil {
		m.t.Fatal(err)
	}
	// An agent that restarts remembers only what it was told apart from the registration.
	if err := m.consul.Client().Agent().UpdateTTL("check-"+id, "", from.status); err != nil {
		m.t.Fatal(err)
	}
}

// bootstrap is what Consul's command line makes for the sidecar of an instance.
func (m *mesh) bootstrap(of *member, id string) []byte {
	m.t.Helper()
	grpcAddr := m.consul.GRPCAddr()
	if of.server == byCatenary {
		grpcAddr = m.catenary.GRPCAddr
	}
	args := []string{
		"connect", "envoy", "-sidecar-for", id, "-bootstrap", "-ignore-envoy-compatibility",
		"-admin-bind", "127.0.0.1:0", "-grpc-addr", grpcAddr,
	}
	if of.token != "" {
		args = append(args, "-token", of.token)
	}
	return []byte(m.consul.CLI("", args...))
}

// errDenied means that a sidecar turned a call away.
var errDenied = errors.New("denied")

// call calls one service from another, by the sidecars of both, and checks who answers.
func (from *member) call(to *member) error {
	addr := fmt.Sprintf("127.0.0.1:%d", from.ports[to.name])
	switch to.protocol {
	case "tcp":
		return callTCP(addr, to.name)
	case "grpc":
		return callGRPC(addr, to.name)
	}
	return callHTTP(addr, to.name, nil)
}

func callHTTP(addr, name string, header http.Header) error {
	code, body, err := testenv.Get("http://"+addr+"/", header)
	switch {
	case err != nil:
		return err
	case code == http.StatusForbidden:
		return errDenied
	case code != http.StatusOK || strings.TrimSpace(body) != name:
		return fmt.Errorf("%d %q, want %s", code, strings.TrimSpace(body), name)
	}
	return nil
}

func callTCP(addr, name string) error {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	// Envoy judges a connection by its first bytes: a service that speaks first is heard by everyone.
	if _, err := fmt.Fprintln(conn, "hello"); err != nil {
		return fmt.Errorf("%w: %w", errDenied, err)
	}
	answer := bufio.NewReader(conn)
	for _, want := range []string{name, "hello"} {
		line, err := answer.ReadString('\n')
		switch {
		case err != nil:
			return fmt.Errorf("%w: %w", errDenied, err)
		case strings.TrimSpace(line) != want:
			return fmt.Errorf("%q, want %s", line, want)
		}
	}
	return nil
}

func callGRPC(addr, name string) error {
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: name})
	switch {
	case err != nil && strings.Contains(err.Error(), "RBAC"):
		return fmt.Errorf("%w: %w", errDenied, err)
	case err != nil:
		return err
	case answer.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING:
		return fmt.Errorf("%v, want SERVING", answer)
	}
	return nil
}

// directions calls f for each pair of services.
func (m *mesh) directions(f func(from, to *member)) {
	for _, from := range m.members {
		for _, to := range m.members {
			if from != to {
				f(from, to)
			}
		}
	}
}

// flows waits until a call gets through.
func (m *mesh) flows(from, to *member) {
	m.t.Helper()
	testenv.Eventually(m.t, patience, func() error {
		if err := from.call(to); err != nil {
			return fmt.Errorf("%s to %s (%s): %w", from.name, to.name, to.protocol, err)
		}
		return nil
	})
}

// denied waits until a call is turned away.
func (m *mesh) denied(from, to *member) {
	m.t.Helper()
	testenv.Eventually(m.t, patience, func() error {
		if err := from.call(to); !errors.Is(err, errDenied) {
			return fmt.Errorf("%s to %s (%s): %w, want it denied", from.name, to.name, to.protocol, err)
		}
		return nil
	})
}
