//go:build e2e

package grpc

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	grpcgo "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/hashicorp/consul/api"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// servers start a server of each language with a bootstrap, which answers with the name of its service, and return where
// it listens.
var servers = map[string]func(t *testing.T, bootstrap []byte, service string) (port int){
	"go": func(t *testing.T, bootstrap []byte, service string) int {
		return testenv.StartXDSServer(t, bootstrap, service, true).Port
	},
	"node": func(t *testing.T, bootstrap []byte, service string) int {
		port := testenv.FreePort(t)
		startProcess(t, bootstrap, true, "node", "server.js", strconv.Itoa(port), service)
		return port
	},
	"java": func(t *testing.T, bootstrap []byte, service string) int {
		port := testenv.FreePort(t)
		startProcess(t, bootstrap, true, "java", "-cp", "target/classes:lib/*", "Server", strconv.Itoa(port), service)
		return port
	},
}

// bootstrap is what catenary prints for an application of the mesh.
func (v *village) bootstrap(service string) []byte {
	v.t.Helper()
	r := testenv.Run(v.t, nil, "bootstrap", "grpc", "--service", service, "--grpc-addr", v.catenary.GRPCAddr, "--cert-dir", v.leaf(service))
	if r.Code != 0 {
		v.t.Fatalf("exit %d: %s", r.Code, r.Stderr)
	}
	return []byte(r.Stdout)
}

// as is the village with a client of another service.
func (v *village) as(service string) *village {
	other := *v
	other.client = startGo(v.t, v.bootstrap(service), true)
	return &other
}

// ends waits until a call of a method ends so.
func (v *village) ends(method, want string, headers ...string) {
	v.t.Helper()
	testenv.Eventually(v.t, patience, func() error {
		if got := v.client.call(v.t, "api", method, 1, soon, headers...); got[want] != 1 {
			return fmt.Errorf("%s with %q ended as %v, want %s", method, headers, got, want)
		}
		return nil
	})
}

const (
	put = "/shop.Shop/Put"

	// intentions of api, each about web
	webIsDenied = `
Kind = "service-intentions"
Name = "api"
Sources { Name = "web" Action = "deny" }`
	webMayPut = `
Kind = "service-intentions"
Name = "api"
Sources {
  Name = "web"
  Permissions = [
    { Action = "deny" HTTP { Header = [{ Name = "X-Role", Exact = "guest" }] } },
    { Action = "deny" HTTP { Header = [{ Name = "x-tenant", Exact = "a", Invert = true }] } },
    { Action = "allow" HTTP { PathRegex = "/shop\\.Shop/(Put|Drop)|/never", Methods = ["POST"] } },
    { Action = "deny" HTTP { PathPrefix = "/" } },
  ]
}`
)

// TestServersGoByIntentions: servers that have no proxy judge calls as sidecars do, and are called with certificates of
// the mesh only.
func TestServersGoByIntentions(t *testing.T) {
	for language, start := range servers {
		t.Run(language, func(t *testing.T) {
			if language == "node" {
				t.Setenv("GRPC_XDS_EXPERIMENTAL_RBAC", "true") // without which it refuses every listener that judges
			}
			v := &village{t: t, consul: testenv.StartConsul(t)}
			v.catenary = testenv.StartCatenary(t, v.consul.Env(), "--consul-addr", v.consul.HTTPAddr())
			testenv.Eventually(t, patience, v.catenary.Ready)
			v.write(apiIsGRPC)
			port := start(t, v.bootstrap("api"), "api")
			v.consul.Register(&api.CatalogRegistration{
				Node: "node-1", Address: "127.0.0.1",
				Service: &api.AgentService{
					ID: "api", Service: "api", Address: "127.0.0.1", Port: port, Connect: &api.AgentServiceConnect{Native: true},
				},
			})
			web, db := v.as("web"), v.as("db")

			web.settles("api", "api")
			plain, err := grpcgo.NewClient(fmt.Sprintf("127.0.0.1:%d", port), grpcgo.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			defer plain.Close()
			ctx, cancel := context.WithTimeout(t.Context(), soon)
			defer cancel()
			if who, err := (&testenv.GRPCClient{ClientConn: plain}).Call(ctx, get); err == nil || status.Code(err) == codes.PermissionDenied {
				t.Errorf("in plaintext it answers %q, %v", who, err)
			}

			v.write(webIsDenied)
			web.settles("api", "PERMISSION_DENIED")
			db.settles("api", "api")

			v.write(webMayPut)
			web.ends(put, "api")
			web.ends(get, "PERMISSION_DENIED")
			web.ends(put, "api", "x-role=owner")
			web.ends(put, "PERMISSION_DENIED", "x-role=guest")
			web.ends(put, "PERMISSION_DENIED", "x-role=owner", "x-role=guest")
			web.ends(put, "api", "x-tenant=a")
			web.ends(put, "PERMISSION_DENIED", "x-tenant=b")
			db.settles("api", "api")
			v.takesAll()
		})
	}
}
