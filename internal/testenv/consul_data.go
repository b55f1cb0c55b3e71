package testenv

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/hashicorp/consul/api"
)

// Service says what [Consul.RegisterService] registers. Only Name is required.
type Service struct {
	Name string
	// ID is Name when empty.
	ID string
	// Node is node-1 when empty. It must not be the node of the server itself, which would remove
	// what it does not know.
	Node string
	// Address is 127.0.0.1 when empty.
	Address string
	Port    int
	Tags    []string
	Meta    map[string]string
	// Status is that of the only check, passing when empty.
	Status  string
	Weights *api.AgentWeights
	// Kind and Proxy are for sidecars.
	Kind  api.ServiceKind
	Proxy *api.AgentServiceConnectProxyConfig
}

// RegisterService registers a service in the catalog with one check, service:ID, at once and without
// an agent; the same ID replaces it.
func (c *Consul) RegisterService(s Service) {
	c.t.Helper()
	s.ID = or(s.ID, s.Name)
	s.Node = or(s.Node, "node-1")
	s.Address = or(s.Address, "127.0.0.1")
	weights := api.AgentWeights{Passing: 1, Warning: 1}
	if s.Weights != nil {
		weights = *s.Weights
	}
	c.Register(&api.CatalogRegistration{
		Node: s.Node, Address: s.Address, SkipNodeUpdate: false,
		Service: &api.AgentService{
			ID: s.ID, Service: s.Name, Kind: s.Kind, Address: s.Address, Port: s.Port,
			Tags: s.Tags, Meta: s.Meta, Weights: weights, Proxy: s.Proxy,
		},
		Checks: api.HealthChecks{{
			Node: s.Node, CheckID: "service:" + s.ID, Name: "check of " + s.ID, ServiceID: s.ID,
			Status: or(s.Status, api.HealthPassing),
		}},
	})
}

// Register writes a registration to the catalog.
func (c *Consul) Register(r *api.CatalogRegistration) {
	c.t.Helper()
	if _, err := c.client.Catalog().Register(r, nil); err != nil {
		c.t.Fatalf("testenv: register on %s: %v", r.Node, err)
	}
	if r.Service != nil {
		c.mu.Lock()
		c.services[r.Service.ID] = r
		c.mu.Unlock()
	}
}

// registered returns a registration made before.
func (c *Consul) registered(id string) *api.CatalogRegistration {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.services[id]
	if r == nil {
		c.t.Fatalf("testenv: no service with ID %q was registered", id)
	}
	return r
}

// SetCheck sets the status of all checks of a registered service.
func (c *Consul) SetCheck(id, status string) {
	c.t.Helper()
	if err := c.TrySetCheck(id, status); err != nil {
		c.t.Fatalf("testenv: set the check of %s: %v", id, err)
	}
}

// TrySetCheck is SetCheck where Consul may have no leader.
func (c *Consul) TrySetCheck(id, status string) error {
	c.t.Helper()
	r := c.registered(id)
	for _, check := range r.Checks {
		check.Status = status
	}
	only := &api.CatalogRegistration{Node: r.Node, Address: r.Address, Checks: r.Checks, SkipNodeUpdate: true}
	_, err := c.client.Catalog().Register(only, nil)
	return err
}

// Deregister removes a registered service and its checks.
func (c *Consul) Deregister(id string) {
	c.t.Helper()
	r := c.registered(id)
	gone := &api.CatalogDeregistration{Node: r.Node, ServiceID: id}
	if _, err := c.client.Catalog().Deregister(gone, nil); err != nil {
		c.t.Fatalf("testenv: deregister %s: %v", id, err)
	}
}

// WriteEntry writes a config entry in HCL or JSON with `consul config write`, and returns when
// Consul has accepted it.
func (c *Consul) WriteEntry(text string) {
	c.t.Helper()
	c.CLI(text, "config", "write", "-")
}

// DeleteEntry deletes a config entry.
func (c *Consul) DeleteEntry(kind, name string) {
	c.t.Helper()
	if _, err := c.client.ConfigEntries().Delete(kind, name, nil); err != nil {
		c.t.Fatalf("testenv: delete %s/%s: %v", kind, name, err)
	}
}

// PeerWith makes another Consul a cluster peer, by these names: here it is called theirs, and there this one
// ours. Both must have [WithPeering].
func (c *Consul) PeerWith(other *Consul, theirs, ours string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	token, _, err := other.client.Peerings().GenerateToken(ctx, api.PeeringGenerateTokenRequest{PeerName: ours}, nil)
	if err != nil {
		c.t.Fatalf("testenv: make a token for the peer %s: %v", ours, err)
	}
	_, _, err = c.client.Peerings().Establish(ctx, api.PeeringEstablishRequest{PeerName: theirs, PeeringToken: token.PeeringToken}, nil)
	if err != nil {
		c.t.Fatalf("testenv: peer with %s: %v", theirs, err)
	}
}

// CLI runs Consul's command line against the server and returns what it printed to stdout.
func (c *Consul) CLI(stdin string, args ...string) string {
	c.t.Helper()
	cmd := exec.Command(c.binary, args...)
	cmd.Env = c.Env()
	cmd.Stdin = strings.NewReader(stdin)
	cmd.SysProcAttr = diesWithParent()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		c.t.Fatalf("testenv: consul %s: %v\n%s\ninput:\n%s", strings.Join(args, " "), err, stderr.String(), stdin)
	}
	return string(out)
}

// NewToken makes a token with one policy of these rules and returns its secret. Empty rules grant
// nothing.
func (c *Consul) NewToken(rules string) string {
	c.t.Helper()
	c.mu.Lock()
	name := fmt.Sprintf("testenv-%d", len(c.policies))
	c.mu.Unlock()
	policy, _, err := c.client.ACL().PolicyCreate(&api.ACLPolicy{Name: name, Rules: rules}, nil)
	if err != nil {
		c.t.Fatalf("testenv: make a policy: %v", err)
	}
	token, _, err := c.client.ACL().TokenCreate(&api.ACLToken{Policies: []*api.ACLTokenPolicyLink{{ID: policy.ID}}}, nil)
	if err != nil {
		c.t.Fatalf("testenv: make a token: %v", err)
	}
	c.mu.Lock()
	c.policies[token.SecretID] = policy.ID
	c.mu.Unlock()
	return token.SecretID
}

// SetPolicy replaces the rules of a token made by [Consul.NewToken].
func (c *Consul) SetPolicy(secret, rules string) {
	c.t.Helper()
	c.mu.Lock()
	id := c.policies[secret]
	c.mu.Unlock()
	policy, _, err := c.client.ACL().PolicyRead(id, nil)
	if err != nil || policy == nil {
		c.t.Fatalf("testenv: the policy of the token is not there: %v", err)
	}
	policy.Rules = rules
	if _, _, err := c.client.ACL().PolicyUpdate(policy, nil); err != nil {
		c.t.Fatalf("testenv: change a policy: %v", err)
	}
}

// DeleteToken deletes a token by its secret.
func (c *Consul) DeleteToken(secret string) {
	c.t.Helper()
	token, _, err := c.client.ACL().TokenReadSelf(&api.QueryOptions{Token: secret})
	if err != nil {
		c.t.Fatalf("testenv: read a token: %v", err)
	}
	if _, err := c.client.ACL().TokenDelete(token.AccessorID, nil); err != nil {
		c.t.Fatalf("testenv: delete a token: %v", err)
	}
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// RotateRoot has Consul's certificate authority sign by another root, with a new key, as an operator would.
func (c *Consul) RotateRoot() { c.rotateRoot() }

// RotateRootUnsigned is RotateRoot without the signature of the root before, so that who trusts only that does
// not believe what the other signs.
func (c *Consul) RotateRootUnsigned() { c.rotateRoot("-force-without-cross-signing") }

func (c *Consul) rotateRoot(args ...string) {
	c.t.Helper()
	der, err := x509.MarshalECPrivateKey(newKey(c.t))
	if err != nil {
		c.t.Fatal(err)
	}
	config, err := json.Marshal(map[string]any{"Provider": "consul", "Config": map[string]any{
		"PrivateKey": string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})), "LeafCertTTL": "72h",
	}})
	if err != nil {
		c.t.Fatal(err)
	}
	file := filepath.Join(c.t.TempDir(), "ca.json")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.CLI("", append([]string{"connect", "ca", "set-config", "-config-file", file}, args...)...)
}
