//go:build e2e

package grpc

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
	grpcgo "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
)

const (
	patience = 15 * time.Second
	soon     = 5 * time.Second
	get      = "/shop.Shop/Get"
)

// village is a Consul, a catenary, and one application with gRPC.
type village struct {
	t        *testing.T
	consul   *testenv.Consul
	catenary *testenv.Catenary
	client   client
}

// eachLanguage runs a test with a client of each language.
func eachLanguage(t *testing.T, mesh bool, test func(v *village)) {
	for language, start := range languages {
		t.Run(language, func(t *testing.T) {
			v := &village{t: t, consul: testenv.StartConsul(t)}
			v.catenary = testenv.StartCatenary(t, v.consul.Env(), "--consul-addr", v.consul.HTTPAddr())
			testenv.Eventually(t, patience, v.catenary.Ready)
			args := []string{"bootstrap", "grpc", "--service", "web", "--grpc-addr", v.catenary.GRPCAddr}
			if mesh {
				args = append(args, "--cert-dir", v.leaf("web"))
			}
			r := testenv.Run(t, nil, args...)
			if r.Code != 0 {
				t.Fatalf("exit %d: %s", r.Code, r.Stderr)
			}
			v.client = start(t, []byte(r.Stdout), mesh)
			test(v)
			v.takesAll()
		})
	}
}

// takesAll fails if a client refused something, or never came.
func (v *village) takesAll() {
	v.t.Helper()
	var list []xds.ProxyStatus
	if err := v.catenary.API("/api/v1/proxies", &list); err != nil || len(list) == 0 {
		v.t.Fatalf("nobody is connected: %v", err)
	}
	for _, p := range list {
		for _, typ := range p.Types {
			if typ.Nacks > 0 {
				v.t.Errorf("%s refused a %s: %v", p.ID, typ.Type, typ.Nack)
			}
		}
	}
}

func (v *village) write(entries ...string) {
	v.t.Helper()
	for _, e := range entries {
		v.consul.WriteEntry(e)
	}
}

func (v *village) split(v1, v2 int) {
	v.t.Helper()
	v.write(fmt.Sprintf(`
Kind = "service-splitter"
Name = "api"
Splits = [{ Weight = %d, ServiceSubset = "v1" }, { Weight = %d, ServiceSubset = "v2" }]`, v1, v2))
}

func (v *village) register(service string, b *testenv.GRPCBackend) {
	v.t.Helper()
	v.consul.RegisterService(testenv.Service{
		Name: service, ID: service + "-" + b.Version, Port: b.Port, Meta: map[string]string{"version": b.Version},
	})
}

// settles waits until ten calls in a row are answered alike.
func (v *village) settles(name, want string, headers ...string) {
	v.t.Helper()
	testenv.Eventually(v.t, patience, func() error {
		if got := v.client.call(v.t, name, get, 10, soon, headers...); got[want] != 10 {
			return fmt.Errorf("%s answered %v, want %s", name, got, want)
		}
		return nil
	})
}

// once makes one call, which must end in one of some ways by itself, and so before its deadline.
func (v *village) once(name, method string, want ...string) {
	v.t.Helper()
	start := time.Now()
	got := v.client.call(v.t, name, method, 1, 2*patience)
	took := time.Since(start)
	for _, end := range want {
		if got[end] == 1 && took <= patience {
			return
		}
	}
	v.t.Errorf("%s%s ended as %v after %s, want %v within %s", name, method, got, took, want, patience)
}

// behave is a server that is slow in one method, and fails in another unless it is tried again.
func behave(ctx context.Context, method string) error {
	md, _ := metadata.FromIncomingContext(ctx)
	switch {
	case strings.HasSuffix(method, "/Slow"):
		<-ctx.Done()
		return ctx.Err()
	case strings.HasSuffix(method, "/Flaky") && len(md.Get("grpc-previous-rpc-attempts")) == 0:
		return status.Error(codes.ResourceExhausted, "busy")
	}
	return nil
}

const (
	apiIsGRPC = `
Kind = "service-defaults"
Name = "api"
Protocol = "grpc"`
	apiSubsets = `
Kind = "service-resolver"
Name = "api"
Subsets = {
  v1 = { Filter = "Service.Meta.version == v1" }
  v2 = { Filter = "Service.Meta.version == v2" }
}
Failover = { v1 = { ServiceSubset = "v2" } }
LoadBalancer = { Policy = "least_request" }`
	apiRoutes = `
Kind = "service-router"
Name = "api"
Routes = [
  {
    Match { HTTP { PathRegex = "/shop|/never" } }
    Destination { ServiceSubset = "v2" }
  },
  {
    Match { HTTP { Header = [{ Name = "x-shard", Exact = "1", Invert = true }] } }
    Destination { ServiceSubset = "v2" }
  },
  {
    Match { HTTP { Header = [{ Name = "x-canary", Regex = "1|on" }] } }
    Destination { ServiceSubset = "v2" }
  },
  {
    Match { HTTP { PathRegex = "/shop\\..*/Slow" } }
    Destination { RequestTimeout = "300ms" }
  },
  {
    Match { HTTP { PathExact = "/shop.shop/flaky", CaseInsensitive = true } }
    Destination { NumRetries = 2, RetryOn = ["resource-exhausted"] }
  },
  {
    Match { HTTP { PathPrefix = "/", QueryParam = [{ Name = "v", Present = true }] } }
    Destination { ServiceSubset = "v2", PrefixRewrite = "/x" }
  },
]`
	webTreatsItsUpstreams = `
Kind = "service-defaults"
Name = "web"
UpstreamConfig {
  Defaults {
    Limits { MaxConcurrentRequests = 100, MaxConnections = 10 }
    PassiveHealthCheck { Interval = "10s", MaxFailures = 50, MaxEjectionPercent = 50 }
  }
}`
	ringIsHashed = `
Kind = "service-resolver"
Name = "ring"
LoadBalancer {
  Policy = "ring_hash"
  RingHashConfig { MinimumRingSize = 16777216 }
  HashPolicies = [{ Field = "header", FieldValue = "x-user" }, { SourceIP = true }, { Field = "cookie", FieldValue = "c" }]
}`
)

func TestClientsFollowConsul(t *testing.T) {
	eachLanguage(t, false, func(v *village) {
		v1, v2 := testenv.StartGRPCBackend(v.t, "v1", behave), testenv.StartGRPCBackend(v.t, "v2", behave)
		v.write(webTreatsItsUpstreams, apiIsGRPC, apiSubsets, ringIsHashed)
		v.split(90, 10)
		v.write(apiRoutes)
		for _, b := range []*testenv.GRPCBackend{v1, v2} {
			v.register("api", b)
			v.register("ring", b)
		}
		const name = "api.service.consul:8080"
		v.once("nobody", get, "UNAVAILABLE")
		v.once("v1.api.service.consul", get, "UNAVAILABLE")
		testenv.Eventually(v.t, patience, func() error {
			if got := v.client.call(v.t, name, get, 20, soon); got["v1"]+got["v2"] != 20 {
				return fmt.Errorf("answered %v", got)
			}
			return nil
		})
		// Further away than this from 90 % of 500 is one run of a million.
		if got := v.client.call(v.t, name, get, 500, soon); got["v1"] < 415 || got["v1"] > 482 || got["v1"]+got["v2"] != 500 {
			v.t.Errorf("90/10 answered %v", got)
		}
		v.settles(name, "v2", "x-canary=1")
		v.settles(name, "v2", "x-shard=2")
		if got := v.client.call(v.t, name, get, 100, soon, "x-canary=10"); got["v1"] < 50 {
			v.t.Errorf("what begins like a header that a route asks for answered %v", got)
		}
		// A server knows the time too, and may end the call before a client on a busy machine does.
		v.once(name, "/shop.Shop/Slow", "DEADLINE_EXCEEDED", "CANCELLED")
		if got := v.client.call(v.t, name, "/shop.Shop/Flaky", 5, soon); got["v1"]+got["v2"] != 5 {
			v.t.Errorf("a call that is tried again: %v", got)
		}
		v.once(name, "/other.Other/Flaky", "RESOURCE_EXHAUSTED")
		if got := v.client.call(v.t, "ring", get, 20, soon, "x-user=ada"); len(got) != 1 || got["v1"]+got["v2"] != 20 {
			v.t.Errorf("what is hashed alike answered %v", got)
		}

		v.split(0, 100)
		v.settles(name, "v2")
		v.split(100, 0)
		v.settles(name, "v1")
		v.consul.SetCheck("api-v1", api.HealthCritical)
		v.settles(name, "v2")
		v.consul.SetCheck("api-v1", api.HealthPassing)
		v.settles(name, "v1")
		v.consul.Deregister("api-v1")
		v.settles(name, "v2")
		v.consul.SetCheck("api-v2", api.HealthCritical)
		v.settles(name, "UNAVAILABLE")
	})
}

// leaf has catenary write the certificate of a service to a directory, with a key of the agent's.
func (v *village) leaf(service string) (dir string) {
	v.t.Helper()
	dir = v.t.TempDir()
	r := testenv.Run(v.t, v.consul.Env(), "certs", "--once", "--service", service, "--dir", dir, "--consul-addr", v.consul.HTTPAddr())
	if r.Code != 0 {
		v.t.Fatalf("exit %d: %s", r.Code, r.Stderr)
	}
	return dir
}

// native starts a server with the certificate of a service, and registers it as the instance of api, which does the
// mesh's work itself.
func (v *village) native(service string) *testenv.GRPCBackend {
	v.t.Helper()
	dir := v.leaf(service)
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, "leaf.pem"), filepath.Join(dir, "key.pem"))
	if err != nil {
		v.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	text, err := os.ReadFile(filepath.Join(dir, "roots.pem"))
	if err != nil || !roots.AppendCertsFromPEM(text) {
		v.t.Fatal("no roots", err)
	}
	b := testenv.StartGRPCBackend(v.t, service, nil, grpcgo.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots,
	})))
	v.consul.Register(&api.CatalogRegistration{
		Node: "node-1", Address: "127.0.0.1",
		Service: &api.AgentService{
			ID: "api", Service: "api", Address: "127.0.0.1", Port: b.Port, Connect: &api.AgentServiceConnect{Native: true},
		},
	})
	return b
}

func TestClientsOfTheMeshRefuseAnotherIdentity(t *testing.T) {
	eachLanguage(t, true, func(v *village) {
		v.native("api")
		v.settles("api", "api")
		impostor := v.native("stock")
		v.settles("api", "UNAVAILABLE")
		if impostor.Count() > 0 {
			v.t.Error("a server with the certificate of stock was called as api")
		}
	})
}
