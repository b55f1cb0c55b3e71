package certs_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	credsxds "google.golang.org/grpc/credentials/xds"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
)

// village is a Consul, a catenary that takes certificates of its mesh, and applications with gRPC.
type village struct {
	t        *testing.T
	consul   *testenv.Consul
	catenary *testenv.Catenary
	caFile   string // vouches for catenary
}

func startVillage(t *testing.T, options ...testenv.ConsulOption) *village {
	t.Helper()
	v := &village{t: t, consul: testenv.StartConsul(t, options...)}
	authority := testenv.NewAuthority(t)
	v.caFile = authority.CAFile
	cert, key := authority.Issue("catenary")
	// Who has a certificate of the mesh is believed to be its service.
	roots := v.certs("anyone").Dir + "/roots.pem"
	v.catenary = testenv.StartCatenary(t, v.consul.Env(), "--consul-addr", v.consul.HTTPAddr(), "--grpc-auth", "mtls",
		"--grpc-tls-cert", cert, "--grpc-tls-key", key, "--grpc-tls-ca", roots)
	testenv.Eventually(t, patience, v.catenary.Ready)
	return v
}

// certs keeps the certificate of a service, with a token for that alone.
func (v *village) certs(service string) *testenv.Certs {
	v.t.Helper()
	args := []string{"--service", service, "--consul-addr", v.consul.HTTPAddr(), "--consul-grpc-addr", v.consul.GRPCAddr()}
	if v.consul.Token() != "" {
		args = append(args, "--token-file", writeToken(v.t, v.consul, fmt.Sprintf("service %q { policy = \"write\" }", service)))
	}
	return testenv.StartCerts(v.t, nil, args...)
}

// bootstrap is what catenary prints for an application with the certificates of a directory.
func (v *village) bootstrap(service, certs string) []byte {
	v.t.Helper()
	r := testenv.Run(v.t, nil, "bootstrap", "grpc", "--service", service, "--cert-dir", certs,
		"--grpc-addr", v.catenary.GRPCAddr, "--grpc-ca-file", v.caFile)
	if r.Code != 0 {
		v.t.Fatalf("exit %d: %s", r.Code, r.Stderr)
	}
	return []byte(r.Stdout)
}

// server starts a server of a service and registers it as one that does the mesh's work itself.
func (v *village) server(service, certs string) *testenv.XDSServer {
	v.t.Helper()
	s := testenv.StartXDSServer(v.t, v.bootstrap(service, certs), service, true)
	v.consul.Register(&api.CatalogRegistration{
		Node: "node-1", Address: "127.0.0.1",
		Service: &api.AgentService{
			ID: service, Service: service, Address: "127.0.0.1", Port: s.Port, Connect: &api.AgentServiceConnect{Native: true},
		},
	})
	testenv.Eventually(v.t, patience, s.Serving)
	return s
}

// client dials a service with the certificate of another.
func (v *village) client(service, certs, to string) *testenv.GRPCClient {
	v.t.Helper()
	creds, err := credsxds.NewClientCredentials(credsxds.ClientOptions{FallbackCreds: insecure.NewCredentials()})
	if err != nil {
		v.t.Fatal(err)
	}
	return testenv.DialXDS(v.t, v.bootstrap(service, certs), to, grpc.WithTransportCredentials(creds))
}

// ends waits until a call ends so.
func ends(t *testing.T, c *testenv.GRPCClient, want codes.Code) {
	t.Helper()
	testenv.Eventually(t, patience, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := c.Call(ctx, "/shop.Shop/Get"); status.Code(err) != want {
			return fmt.Errorf("the call ends with %w, want %s", err, want)
		}
		return nil
	})
}

// nothingRefused fails if an application refused something.
func (v *village) nothingRefused() {
	v.t.Helper()
	var list []xds.ProxyStatus
	if err := v.catenary.API("/api/v1/proxies", &list); err != nil {
		v.t.Fatal(err)
	}
	for _, p := range list {
		for _, typ := range p.Types {
			if typ.Nacks > 0 {
				v.t.Errorf("%s refused a %s: %v", p.ID, typ.Type, typ.Nack)
			}
		}
	}
}

// TestGRPCServersOfTheMeshGoByIntentions: two applications of which neither has a proxy, each with no more than the
// certificate of its service.
func TestGRPCServersOfTheMeshGoByIntentions(t *testing.T) {
	t.Parallel()
	v := startVillage(t, testenv.WithACL())
	v.consul.WriteEntry("Kind = \"service-defaults\"\nName = \"api\"\nProtocol = \"grpc\"")
	v.server("api", v.certs("api").Dir)
	web, db := v.client("web", v.certs("web").Dir, "api"), v.client("db", v.certs("db").Dir, "api")
	ends(t, web, codes.PermissionDenied) // Consul denies what no intention allows, with ACLs
	v.consul.WriteEntry(`
Kind = "service-intentions"
Name = "api"
Sources { Name = "web" Action = "allow" }`)
	ends(t, web, codes.OK)
	ends(t, db, codes.PermissionDenied)
	v.consul.WriteEntry(`
Kind = "service-intentions"
Name = "api"
Sources {
  Name = "web"
  Permissions { Action = "allow" HTTP { PathExact = "/shop.Shop/Put" } }
}`)
	ends(t, web, codes.PermissionDenied)
	v.consul.DeleteEntry("service-intentions", "api")
	v.consul.WriteEntry(`
Kind = "service-intentions"
Name = "*"
Sources { Name = "*" Action = "allow" }`)
	ends(t, web, codes.OK)
	ends(t, db, codes.OK)
	v.nothingRefused()
}

// TestNobodyServesInTheNameOfAnother: an application that says it is another's service is not admitted.
func TestNobodyServesInTheNameOfAnother(t *testing.T) {
	t.Parallel()
	v := startVillage(t)
	s := testenv.StartXDSServer(t, v.bootstrap("api", v.certs("web").Dir), "api", true)
	testenv.Eventually(t, patience, func() error {
		if log := v.catenary.Log(); !strings.Contains(log, "a client was refused: proxy=api-grpc service=api") {
			return fmt.Errorf("it was not turned away: %s", log)
		}
		return nil
	})
	if s.Serving() == nil {
		t.Error("it serves")
	}
}
