package integration_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
)

// atPorts copies a file of an example with other ports, for the ports in it may be taken here.
func atPorts(t *testing.T, file string, ports map[string]int) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range ports {
		if !strings.Contains(string(text), from) {
			t.Fatalf("%s does not name the port %s", file, from)
		}
		text = []byte(strings.ReplaceAll(string(text), from, fmt.Sprint(to)))
	}
	copied := filepath.Join(t.TempDir(), filepath.Base(file))
	if err := os.WriteFile(copied, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return copied
}

func TestTheExampleForConsulDoesWhatItSays(t *testing.T) {
	t.Parallel()
	f := startFleet(t, false)
	v1, v2 := testenv.StartBackend(t, "v1"), testenv.StartBackend(t, "v2")
	dir := example(t, "consul")
	f.consul.CLI("", "services", "register",
		atPorts(t, filepath.Join(dir, "services.hcl"), map[string]int{"9201": v1.Port, "9202": v2.Port}))
	entries, err := filepath.Glob(filepath.Join(dir, "config", "*.hcl"))
	if err != nil || len(entries) == 0 {
		t.Fatalf("config entries %v: %v", entries, err)
	}
	for _, e := range entries {
		f.consul.CLI("", "config", "write", e)
	}
	api, up := port(t, "api")
	f.envoy("web", up).WaitReady()
	answers(t, api, "v1")
	code, body, err := testenv.Get(fmt.Sprintf("http://127.0.0.1:%d/", api), http.Header{"X-Canary": {"1"}})
	if err != nil || code != http.StatusOK || strings.TrimSpace(body) != "v2" {
		t.Errorf("with x-canary: %d %q %v, want v2", code, body, err)
	}
	for _, args := range [][]string{{"proxies"}, {"endpoints", "api"}} {
		r := testenv.Run(t, nil, append(args, "--admin-addr", f.catenary.AdminAddr)...)
		if r.Code != 0 || r.Stdout == "" {
			t.Errorf("catenary %v: exit %d\n%s%s", args, r.Code, r.Stdout, r.Stderr)
		}
	}
	f.consul.CLI("", "services", "deregister", "-id=api-2")
	testenv.Eventually(t, patience, func() error {
		code, _, err := testenv.Get(fmt.Sprintf("http://127.0.0.1:%d/", api), http.Header{"X-Canary": {"1"}})
		if err == nil && code != http.StatusServiceUnavailable {
			err = fmt.Errorf("with x-canary and without version 2: %d", code)
		}
		return err
	})
}

// withSidecar registers a service whose sidecar forwards to a backend and has upstreams, each a part of HCL,
// and returns the file. Consul's own checks of a sidecar come every 10 s only, and so have their place taken.
func (f *fleet) withSidecar(service string, port int, behind *testenv.Backend, upstreams ...string) string {
	f.t.Helper()
	text := fmt.Sprintf(`
services {
  name = %q
  address = "127.0.0.1"
  port = %d
  connect { sidecar_service {
    address = "127.0.0.1"
    port = %d
    checks = [{ name = "alias", alias_service = %[1]q }]
    proxy {
      local_service_port = %[4]d
      upstreams = [%[5]s]
    }
  } }
}
`, service, port, testenv.FreePort(f.t), behind.Port, strings.Join(upstreams, ", "))
	file := filepath.Join(f.t.TempDir(), service+".hcl")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	f.consul.CLI("", "services", "register", file)
	return file
}

// sidecar starts the Envoy of the sidecar of a service, by the bootstrap of Consul's own command line.
func (f *fleet) sidecar(service string, flags ...string) {
	f.t.Helper()
	boot := f.consul.CLI("", append([]string{
		"connect", "envoy", "-sidecar-for", service, "-bootstrap",
		"-ignore-envoy-compatibility", "-admin-bind", "127.0.0.1:0", "-grpc-addr", f.catenary.GRPCAddr,
	}, flags...)...)
	testenv.StartEnvoy(f.t, []byte(boot)).WaitReady()
}

func TestEnvoysFromConsulsOwnBootstrap(t *testing.T) {
	t.Parallel()
	f := startFleet(t, false)
	direct, behind := testenv.StartBackend(t, "direct"), testenv.StartBackend(t, "sidecar")
	f.http("api")
	f.http("web")
	mesh, plain := testenv.FreePort(t), testenv.FreePort(t)
	// What is behind the sidecar of api is another backend: the plain proxy must not reach it.
	f.withSidecar("api", direct.Port, behind)
	registration := f.withSidecar("web", testenv.FreePort(t), direct,
		fmt.Sprintf(`{ destination_name = "api", local_bind_port = %d }`, mesh))
	f.sidecar("api")
	f.sidecar("web")
	f.envoy("web", fmt.Sprintf("api:%d", plain)).WaitReady()

	answers(t, mesh, "sidecar")
	answers(t, plain, "direct")
	p := proxy(t, f.catenary, "web-sidecar-proxy", xds.StateSynced)
	if p.Kind != "mesh" || p.Service != "web" {
		t.Errorf("%+v", p)
	}

	// The registration goes: the proxy keeps what it has and is shown without one; it returns.
	f.consul.CLI("", "services", "deregister", "-id=web-sidecar-proxy")
	proxy(t, f.catenary, "web-sidecar-proxy", xds.StateUnregistered)
	stays(t, mesh, 300*time.Millisecond, "sidecar")
	f.consul.CLI("", "services", "register", registration)
	proxy(t, f.catenary, "web-sidecar-proxy", xds.StateSynced)
	answers(t, mesh, "sidecar")
}

func TestAnEndOfServiceLeavesEnvoysServing(t *testing.T) {
	t.Parallel()
	bothForms(t, func(t *testing.T, sotw bool) {
		f := startFleet(t, sotw)
		f.register("api", testenv.StartBackend(t, "v1"))
		f.http("api")
		api, up := port(t, "api")
		f.envoy("web", up).WaitReady()
		answers(t, api, "v1")
		begin := time.Now()
		f.catenary.Stop()
		if d := time.Since(begin); d > 4*time.Second {
			t.Errorf("the end took %s", d)
		}
		stays(t, api, 300*time.Millisecond, "v1")
		f.catenary.Restart()
		proxy(t, f.catenary, "web-1", xds.StateSynced)
		answers(t, api, "v1")
		f.register("api", testenv.StartBackend(t, "v2"))
		f.subsets("api", "v1", "v2")
		f.split("api", 0, 100)
		answers(t, api, "v2")
	})
}
