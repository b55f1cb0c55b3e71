//go:build e2e

package hds_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/catenary-mesh/catenary/hds/server"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// secret writes a token to a file for the command line.
func secret(t *testing.T, token string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// identities are the states of the checkers of each identity, in order.
func (f *fleet) identities() (map[string][]string, error) {
	var list []server.CheckerStatus
	err := f.catenary.API("/api/v1/checkers", &list)
	ids := map[string][]string{}
	for _, c := range list {
		ids[c.Checker] = append(ids[c.Checker], c.State)
	}
	for _, states := range ids {
		slices.Sort(states)
	}
	return ids, err
}

// voters waits until an endpoint is up by one vote of each of so many identities, and returns these.
func (f *fleet) voters(service string, port, want int) []string {
	f.t.Helper()
	var ids []string
	testenv.Eventually(f.t, patience, func() error {
		e, err := f.endpoint(service, port)
		if err != nil {
			return err
		}
		ids = nil
		for _, v := range e.Votes {
			if v.Vote == "up" {
				ids = append(ids, v.Checker)
			}
		}
		if e.Verdict != "up" || len(ids) != want || len(e.Votes) != want {
			return fmt.Errorf("%+v, want %d votes that say up", e, want)
		}
		return nil
	})
	slices.Sort(ids)
	return ids
}

// startGuarded starts a catenary that asks a Consul what tokens may, over one service that is to be probed.
func startGuarded(t *testing.T, consul *testenv.Consul) (f *fleet, port int) {
	t.Helper()
	const rights = `service_prefix "" { policy = "write" } node_prefix "" { policy = "read" } agent_prefix "" { policy = "read" }`
	f = &fleet{t: t, env: []string{"CONSUL_HTTP_ADDR=" + consul.HTTPAddr()}}
	f.catenary = testenv.StartCatenary(t, append(slices.Clone(f.env), "CONSUL_HTTP_TOKEN="+consul.NewToken(rights)), "--grpc-auth", "consul", "--hds-report-interval", "100ms")
	testenv.Eventually(t, patience, f.catenary.Ready)
	backend := startWeb(t, 200)
	// Its service-defaults ask for the probe, so that no client has to.
	consul.WriteEntry("Kind = \"service-defaults\"\nName = \"api\"\nProtocol = \"http\"\nMeta = { hds-protocol = \"http\" hds-interval = \"100ms\" hds-timeout = \"5s\" }")
	consul.RegisterService(testenv.Service{Name: "api", Port: backend.port})
	consul.RegisterService(testenv.Service{Name: "checker", ID: "checker-1", Node: "node-c", Port: testenv.FreePort(t)})
	consul.RegisterService(testenv.Service{
		Name: "checker-sidecar-proxy", ID: "checker-1-sidecar-proxy", Node: "node-c", Port: testenv.FreePort(t), Kind: api.ServiceKindConnectProxy,
		Proxy: &api.AgentServiceConnectProxyConfig{DestinationServiceName: "checker", DestinationServiceID: "checker-1"},
	})
	return f, backend.port
}

// TestATokenHasOneVoteAndAProxyThatItMayWriteItsOwn has Envoys with tokens of a real Consul: a registered proxy,
// two that take names of their own under one token, and one that has none. Then a token is deleted.
func TestATokenHasOneVoteAndAProxyThatItMayWriteItsOwn(t *testing.T) {
	t.Parallel()
	consul := testenv.StartConsul(t, testenv.WithACL())
	f, port := startGuarded(t, consul)
	const ofChecker = `service "checker" { policy = "write" } service "checker-sidecar-proxy" { policy = "write" }
service_prefix "" { policy = "read" } node_prefix "" { policy = "read" }`
	own, shared := consul.NewToken(ofChecker), consul.NewToken(`service "checker" { policy = "write" }`)
	f.envoy("--service", "checker", "--sidecar-for", "checker-1", "--hds", "--token-file", secret(t, own))
	f.checker("one", "--token-file", secret(t, shared))
	f.checker("two", "--token-file", secret(t, shared))
	f.checker("nobody")
	testenv.Eventually(t, patience, func() error {
		ids, err := f.identities()
		if err != nil || len(ids) != 2 || !slices.Equal(ids[registered], []string{"working"}) {
			return fmt.Errorf("%v %w", ids, err)
		}
		for id, states := range ids {
			if id != registered && (!strings.HasPrefix(id, "token:") || !slices.Equal(states, []string{"standing-by", "working"})) {
				return fmt.Errorf("%v", ids)
			}
		}
		return nil
	})
	voters := f.voters("api", port, 2)
	r := testenv.Run(t, nil, "checkers", "--admin-addr", f.catenary.AdminAddr)
	for _, id := range voters {
		if r.Code != 0 || !strings.Contains(r.Stdout, id) {
			t.Errorf("checkers: exit %d, and no %s in\n%s%s", r.Code, id, r.Stdout, r.Stderr)
		}
	}
	f.refuses("nobody")

	consul.DeleteToken(shared)
	deleted := time.Now()
	testenv.Eventually(t, revocation, func() error {
		ids, err := f.identities()
		if err != nil || len(ids) != 1 || len(ids[registered]) != 1 {
			return fmt.Errorf("%v %w", ids, err)
		}
		return nil
	})
	t.Logf("the streams of a token ended %v after it was deleted", time.Since(deleted).Round(time.Millisecond))
	if got := f.voters("api", port, 1); got[0] != registered {
		t.Errorf("%v votes", got)
	}
	if log := f.catenary.Log(); strings.Contains(log, own) || strings.Contains(log, shared) {
		t.Error("the log holds a token")
	}
}

const (
	// registered is the identity of the sidecar that these tests register.
	registered = "proxy:node-c/checker-1-sidecar-proxy"
	// revocation is how long a stream may outlive its right.
	revocation = 60 * time.Second
)

// refuses waits until the log tells that a client was refused.
func (f *fleet) refuses(id string) {
	f.t.Helper()
	testenv.Eventually(f.t, patience, func() error {
		for line := range strings.Lines(f.catenary.Log()) {
			if strings.Contains(line, "a client was refused") && strings.Contains(line, "proxy="+id) {
				return nil
			}
		}
		return fmt.Errorf("nothing tells that %s was refused", id)
	})
}

// TestACertificateHasOneVote has Envoys with client certificates: the same one twice, another, and none. Then one goes.
func TestACertificateHasOneVote(t *testing.T) {
	t.Parallel()
	authority := testenv.NewAuthority(t)
	cert, key := authority.Issue("server")
	f := startFleet(t, "--hds-report-interval", "100ms", "--grpc-auth", "mtls", "--grpc-tls-cert", cert, "--grpc-tls-key", key, "--grpc-tls-ca", authority.CAFile)
	api := startWeb(t, 200)
	f.write("api.hcl", instance("api", "api-1", api.port))
	f.write("defaults.hcl", "Kind = \"service-defaults\"\nName = \"api\"\nMeta = { hds-protocol = \"http\" hds-interval = \"100ms\" hds-timeout = \"5s\" }\n")
	const service, node = "spiffe://catenary.local/ns/default/dc/dc1/svc/checker", "spiffe://catenary.local/agent/client/dc/dc1/id/n1"
	authority.IssueURI("one", service)
	authority.IssueURI("two", node)
	envoys := map[string]*testenv.Envoy{}
	for id, file := range map[string]string{"a": "one", "b": "one", "c": "two", "nobody": ""} {
		envoys[id] = f.certified(id, authority, file)
	}
	are := func(want map[string][]string) func() error {
		return func() error {
			ids, err := f.identities()
			if err != nil || !maps.EqualFunc(ids, want, slices.Equal) {
				return fmt.Errorf("%v, want %v: %w", ids, want, err)
			}
			return nil
		}
	}
	testenv.Eventually(t, patience, are(map[string][]string{"certificate:" + service: {"standing-by", "working"}, "certificate:" + node: {"working"}}))
	f.voters("api", api.port, 2)
	f.refuses("nobody")

	// Who stands by takes over.
	for _, c := range f.checkersNow() {
		if c.Checker == "certificate:"+service && c.State == "working" {
			envoys[c.NodeID].Kill()
		}
	}
	testenv.Eventually(t, patience, are(map[string][]string{"certificate:" + service: {"working"}, "certificate:" + node: {"working"}}))
	f.voters("api", api.port, 2)
}

// certified starts a checker that shows a certificate, of which the command line for bootstraps knows nothing.
func (f *fleet) certified(id string, authority *testenv.Authority, file string) *testenv.Envoy {
	f.t.Helper()
	boot := string(f.bootstrap("--service", "checker", "--proxy-id", id, "--hds", "--grpc-ca-file", authority.CAFile))
	if file != "" {
		path := filepath.Join(filepath.Dir(authority.CAFile), file)
		shown := fmt.Sprintf(`[{"certificate_chain": {"filename": "%s.pem"}, "private_key": {"filename": "%[1]s-key.pem"}}]`, path)
		const at = `"common_tls_context": {`
		if strings.Count(boot, at) != 1 {
			f.t.Fatalf("the bootstrap has no place for a certificate: %s", boot)
		}
		boot = strings.Replace(boot, at, at+`"tls_certificates": `+shown+",", 1)
	}
	return testenv.StartEnvoy(f.t, []byte(boot))
}
