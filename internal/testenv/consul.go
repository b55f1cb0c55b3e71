package testenv

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/hashicorp/consul/api"
)

// ConsulOption changes how [StartConsul] starts Consul.
type ConsulOption func(*Consul)

// WithHCL adds configuration in Consul's own format. It may be given several times.
func WithHCL(hcl string) ConsulOption {
	return func(c *Consul) { c.hcl = append(c.hcl, hcl) }
}

// WithDatacenter names the datacenter, which is dc1 otherwise.
func WithDatacenter(name string) ConsulOption {
	return func(c *Consul) { c.datacenter = name }
}

// WithACL turns ACLs on with a default policy of deny; [Consul.Client] uses the management token.
func WithACL() ConsulOption {
	return func(c *Consul) {
		c.token = managementToken
		c.hcl = append(c.hcl, fmt.Sprintf(
			`acl { enabled = true, default_policy = "deny", tokens { initial_management = %q, agent = %[1]q } }`, c.token))
	}
}

// WithWAN joins the server to that of another datacenter.
func WithWAN(other *Consul) ConsulOption {
	return func(c *Consul) {
		c.hcl = append(c.hcl, fmt.Sprintf(`retry_join_wan = ["127.0.0.1:%d"]`, other.ports["serf-wan-port"]))
	}
}

// WithoutMesh turns Consul's service mesh off, and with it its certificate authority.
func WithoutMesh() ConsulOption {
	return func(c *Consul) {
		c.meshless = true
		c.hcl = append(c.hcl, `connect { enabled = false }`)
	}
}

// WithPeering opens the port by which other clusters are peered with, for [Consul.PeerWith].
func WithPeering() ConsulOption {
	return func(c *Consul) { c.peering = true }
}

// WithDataDir keeps Consul's data over [Consul.Restart]: a server that writes to disk, not -dev.
func WithDataDir() ConsulOption {
	return func(c *Consul) { c.persistent = true }
}

// managementToken is the secret of the token that may do everything.
const managementToken = "11111111-2222-3333-4444-555555555555"

// Consul is a server of the real Consul, alone in its datacenter unless it is of a [Cluster].
type Consul struct {
	t          testing.TB
	binary     string
	dir        string
	datacenter string
	token      string
	hcl        []string
	persistent bool
	node       string
	peers      []string // the cluster's -retry-join, this server's own too; none when it is alone
	meshless   bool
	peering    bool
	ports      map[string]int // by name of the flag
	client     *api.Client

	mu       sync.Mutex
	process  *process
	services map[string]*api.CatalogRegistration // by service ID
	policies map[string]string                   // ID of the policy by secret of the token
}

// StartConsul starts Consul and waits until it has a leader. It ends with the test, whose failure
// shows its log.
func StartConsul(t testing.TB, opts ...ConsulOption) *Consul {
	t.Helper()
	c := newConsul(t, "testenv", opts)
	c.Restart()
	return c
}

// newConsul chooses the ports of a server, and has it end with the test.
func newConsul(t testing.TB, node string, opts []ConsulOption) *Consul {
	t.Helper()
	c := &Consul{
		t: t, binary: tool(t, "consul"), dir: t.TempDir(), datacenter: "dc1", node: node,
		ports:    map[string]int{},
		services: map[string]*api.CatalogRegistration{},
		policies: map[string]string{},
	}
	for _, o := range opts {
		o(c)
	}
	names := []string{"http-port", "grpc-port", "server-port", "serf-lan-port", "serf-wan-port"}
	if c.peering {
		names = append(names, "grpc-tls-port")
	}
	for _, name := range names {
		c.ports[name] = FreePort(t)
	}
	client, err := api.NewClient(c.Config())
	if err != nil {
		t.Fatalf("testenv: Consul's client: %v", err)
	}
	c.client = client
	t.Cleanup(func() {
		c.halt(true)
		showLog(t, "consul", c.logFile())
	})
	return c
}

// Restart starts Consul on the same ports after [Consul.Stop], or stops and starts it. Its data are
// lost, and its indexes begin again, unless it has [WithDataDir].
func (c *Consul) Restart() {
	c.t.Helper()
	c.halt(false)
	c.launch()
	c.await()
}

// launch starts the process.
func (c *Consul) launch() {
	c.t.Helper()
	p, err := start("consul", c.logFile(), exec.Command(c.binary, c.args()...))
	if err != nil {
		c.t.Fatal(err)
	}
	c.mu.Lock()
	c.process = p
	c.mu.Unlock()
}

// await waits until the server that was launched serves.
func (c *Consul) await() {
	c.t.Helper()
	c.mu.Lock()
	p := c.process
	c.mu.Unlock()
	if err := p.await(c.serving); err != nil {
		c.t.Fatalf("testenv: Consul does not serve: %v", err)
	}
	if err := p.alive(); err != nil {
		c.t.Fatal(err)
	}
}

// Stop ends Consul and returns when it is gone.
func (c *Consul) Stop() { c.halt(false) }

// Kill ends Consul without giving it time to say so to others.
func (c *Consul) Kill() { c.halt(true) }

func (c *Consul) halt(kill bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process != nil {
		c.process.stop(kill || !c.persistent)
		c.process = nil
	}
}

func (c *Consul) logFile() string { return filepath.Join(c.dir, "consul.log") }

func (c *Consul) args() []string {
	args := []string{
		"agent", "-node", c.node, "-datacenter", c.datacenter, "-log-level", "warn",
		"-bind", "127.0.0.1", "-client", "127.0.0.1", "-dns-port", "-1",
		"-hcl", `performance { raft_multiplier = 1 }`,
	}
	if !c.peering {
		args = append(args, "-grpc-tls-port", "-1")
	}
	for _, peer := range c.peers {
		args = append(args, "-retry-join", peer)
	}
	if c.persistent {
		args = append(args, "-server", "-bootstrap-expect", strconv.Itoa(max(len(c.peers), 1)),
			"-data-dir", filepath.Join(c.dir, "data"), "-hcl", `connect { enabled = true }`)
	} else {
		args = append(args, "-dev")
	}
	for name, port := range c.ports {
		args = append(args, "-"+name, strconv.Itoa(port))
	}
	for _, h := range c.hcl {
		args = append(args, "-hcl", h)
	}
	return args
}

// serving returns nil when Consul has a leader that knows the root certificates and, with ACLs, the
// management token: the last things that a new server sets up.
func (c *Consul) serving() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	opts := (&api.QueryOptions{RequireConsistent: true}).WithContext(ctx)
	leader, err := c.client.Status().LeaderWithQueryOptions(opts)
	if err != nil {
		return err
	}
	if leader == "" {
		return fmt.Errorf("no leader is elected")
	}
	if _, _, err := c.client.Connect().CARoots(opts); err != nil && !c.meshless {
		return err
	}
	services, _, err := c.client.Catalog().Services(opts)
	if err == nil && services["consul"] == nil {
		err = fmt.Errorf("the server has not registered itself, or the management token is not there yet")
	}
	return err
}

// HTTPAddr returns host:port of the HTTP API.
func (c *Consul) HTTPAddr() string { return fmt.Sprintf("127.0.0.1:%d", c.ports["http-port"]) }

// RPCAddr returns host:port of the server RPC.
func (c *Consul) RPCAddr() string { return fmt.Sprintf("127.0.0.1:%d", c.ports["server-port"]) }

// GRPCAddr returns host:port of the public gRPC API.
func (c *Consul) GRPCAddr() string { return fmt.Sprintf("127.0.0.1:%d", c.ports["grpc-port"]) }

// Datacenter returns the name of the datacenter.
func (c *Consul) Datacenter() string { return c.datacenter }

// Token returns the management token, or nothing without ACLs.
func (c *Consul) Token() string { return c.token }

// Config returns a new configuration for a client with the management token. It does not read the
// environment.
func (c *Consul) Config() *api.Config {
	return &api.Config{
		Address: c.HTTPAddr(), Scheme: "http", Token: c.token,
		Transport: &http.Transport{MaxIdleConnsPerHost: 4, DisableKeepAlives: true},
	}
}

// Client returns a client with the management token.
func (c *Consul) Client() *api.Client { return c.client }

// Env returns the environment for a command that talks to this Consul.
func (c *Consul) Env() []string {
	env := append(os.Environ(), "CONSUL_HTTP_ADDR=http://"+c.HTTPAddr())
	if c.token != "" {
		env = append(env, "CONSUL_HTTP_TOKEN="+c.token)
	}
	return env
}
