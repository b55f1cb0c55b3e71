package integration_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	credsxds "google.golang.org/grpc/credentials/xds"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
)

// grpcBootstrap is what catenary prints for an application of web.
func (f *fleet) grpcBootstrap(args ...string) []byte {
	f.t.Helper()
	r := testenv.Run(f.t, nil, append([]string{"bootstrap", "grpc", "--service", "web", "--grpc-addr", f.catenary.GRPCAddr}, args...)...)
	if r.Code != 0 {
		f.t.Fatalf("exit %d: %s", r.Code, r.Stderr)
	}
	return []byte(r.Stdout)
}

// registerGRPC registers a server as an instance.
func (f *fleet) registerGRPC(service string, b *testenv.GRPCBackend) {
	f.consul.RegisterService(testenv.Service{
		Name: service, ID: service + "-" + b.Version, Port: b.Port, Meta: map[string]string{"version": b.Version},
	})
}

// tallied counts who answers n calls, which must all end soon.
func tallied(t *testing.T, c *testenv.GRPCClient, n int, headers ...string) map[string]int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	return c.Tally(ctx, n, headers...)
}

// settles waits until ten calls in a row are answered alike.
func settles(t *testing.T, c *testenv.GRPCClient, want string, headers ...string) {
	t.Helper()
	testenv.Eventually(t, patience, func() error {
		if got := tallied(t, c, 10, headers...); got[want] != 10 {
			return fmt.Errorf("answered %v, want %s", got, want)
		}
		return nil
	})
}

// takesAll fails if a client refused something.
func (f *fleet) takesAll() {
	f.t.Helper()
	list, err := proxies(f.catenary)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, p := range list {
		for _, typ := range p.Types {
			if typ.Nacks > 0 {
				f.t.Errorf("%s refused a %s: %v", p.ID, typ.Type, typ.Nack)
			}
		}
	}
}

func TestGRPCClientsFollowConsul(t *testing.T) {
	t.Parallel()
	f := startFleet(t, true, "--grpc-auth", "none")
	v1, v2 := testenv.StartGRPCBackend(t, "v1", nil), testenv.StartGRPCBackend(t, "v2", nil)
	f.consul.WriteEntry("Kind = \"service-defaults\"\nName = \"api\"\nProtocol = \"grpc\"")
	f.subsets("api", "v1", "v2")
	f.split("api", 90, 10)
	f.registerGRPC("api", v1)
	f.registerGRPC("api", v2)
	client := testenv.DialXDS(t, f.grpcBootstrap(), "api.service.consul:8080")
	testenv.Eventually(t, patience, func() error {
		if got := tallied(t, client, 20); got["v1"]+got["v2"] != 20 {
			return fmt.Errorf("answered %v", got)
		}
		return nil
	})
	// Further away than this from 90 % of 500 is one run of a million.
	if got := tallied(t, client, 500); got["v1"] < 415 || got["v1"] > 482 || got["v1"]+got["v2"] != 500 {
		t.Errorf("90/10 answered %v", got)
	}
	f.split("api", 0, 100)
	settles(t, client, "v2")
	f.consul.WriteEntry(`
Kind = "service-router"
Name = "api"
Routes {
  Match { HTTP { Header { Name = "x-canary" Exact = "1" } } }
  Destination { ServiceSubset = "v1" }
}`)
	settles(t, client, "v1", "x-canary", "1")
	settles(t, client, "v2")

	third := testenv.StartGRPCBackend(t, "third", nil)
	f.consul.RegisterService(testenv.Service{Name: "api", ID: "api-third", Port: third.Port, Meta: map[string]string{"version": "v2"}})
	testenv.Eventually(t, patience, func() error {
		if got := tallied(t, client, 20); got["third"] == 0 || got["v2"] == 0 {
			return fmt.Errorf("answered %v, want both instances", got)
		}
		return nil
	})
	f.consul.SetCheck("api-v2", api.HealthCritical)
	settles(t, client, "third")
	f.consul.Deregister("api-third")
	settles(t, client, "Unavailable")
	f.consul.SetCheck("api-v2", api.HealthPassing)
	settles(t, client, "v2")
	f.takesAll()
	proxy(t, f.catenary, "web-grpc", xds.StateSynced)
}

func TestGRPCClientsFailOverAndBack(t *testing.T) {
	t.Parallel()
	f := startFleet(t, true, "--grpc-auth", "none")
	api, spare := testenv.StartGRPCBackend(t, "api", nil), testenv.StartGRPCBackend(t, "spare", nil)
	for _, s := range []string{"api", "spare"} {
		f.consul.WriteEntry(fmt.Sprintf("Kind = \"service-defaults\"\nName = %q\nProtocol = \"grpc\"", s))
	}
	f.consul.WriteEntry(`
Kind = "service-resolver"
Name = "api"
Failover { "*" { Service = "spare" } }`)
	f.registerGRPC("api", api)
	f.registerGRPC("spare", spare)
	client := testenv.DialXDS(t, f.grpcBootstrap(), "api")
	settles(t, client, "api")
	f.consul.SetCheck("api-api", "critical")
	settles(t, client, "spare")
	f.consul.SetCheck("api-api", "passing")
	settles(t, client, "api")
	start := time.Now()
	if got := tallied(t, testenv.DialXDS(t, f.grpcBootstrap(), "nobody"), 1); got["Unavailable"] != 1 || time.Since(start) > 5*time.Second {
		t.Errorf("a service that is not there: %v after %s", got, time.Since(start))
	}
	f.takesAll()
}

// leaf writes the certificate of a service, as Consul issues it, to a directory.
func (f *fleet) leaf(service string) (dir string) {
	f.t.Helper()
	dir = f.t.TempDir()
	leaf, _, err := f.consul.Client().Agent().ConnectCALeaf(service, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	roots, _, err := f.consul.Client().Agent().ConnectCARoots(nil)
	if err != nil {
		f.t.Fatal(err)
	}
	for name, text := range map[string]string{"leaf.pem": leaf.CertPEM, "key.pem": leaf.PrivateKeyPEM, "roots.pem": roots.Roots[0].RootCertPEM} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			f.t.Fatal(err)
		}
	}
	return dir
}

// native starts a server with the certificate of a service, and registers it as an instance of api that does the
// mesh's work itself.
func (f *fleet) native(service string) *testenv.GRPCBackend {
	f.t.Helper()
	dir := f.leaf(service)
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, "leaf.pem"), filepath.Join(dir, "key.pem"))
	if err != nil {
		f.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	text, err := os.ReadFile(filepath.Join(dir, "roots.pem"))
	if err != nil || !roots.AppendCertsFromPEM(text) {
		f.t.Fatal("no roots", err)
	}
	b := testenv.StartGRPCBackend(f.t, service, nil, grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots,
	})))
	f.consul.Register(&api.CatalogRegistration{
		Node: "node-1", Address: "127.0.0.1",
		Service: &api.AgentService{
			ID: "api", Service: "api", Address: "127.0.0.1", Port: b.Port, Connect: &api.AgentServiceConnect{Native: true},
		},
	})
	return b
}

func TestGRPCClientsOfTheMeshRefuseAnotherIdentity(t *testing.T) {
	t.Parallel()
	f := startFleet(t, true, "--grpc-auth", "none")
	f.native("api")
	creds, err := credsxds.NewClientCredentials(credsxds.ClientOptions{FallbackCreds: insecure.NewCredentials()})
	if err != nil {
		t.Fatal(err)
	}
	client := testenv.DialXDS(t, f.grpcBootstrap("--cert-dir", f.leaf("web")), "api", grpc.WithTransportCredentials(creds))
	settles(t, client, "api")
	impostor := f.native("stock")
	testenv.Eventually(t, patience, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := client.Call(ctx, "/shop.Shop/Get")
		if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "SAN") {
			return fmt.Errorf("the call of an impostor: %w", err)
		}
		return nil
	})
	if impostor.Count() > 0 {
		t.Error("a server with the certificate of stock was called as api")
	}
	f.takesAll()
}
