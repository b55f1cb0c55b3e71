// Package integration_test runs the built program between a real Consul and real Envoys.
package integration_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
)

const (
	// patience is how long a change may take to arrive on a busy machine.
	patience = 10 * time.Second
	// generous is how many times what is promised of a machine of its own a busy one may take.
	generous = 3
)

// fleet is a Consul, a catenary that follows it, and the Envoys that catenary configures.
type fleet struct {
	t        *testing.T
	consul   *testenv.Consul
	catenary *testenv.Catenary
	sotw     bool
	token    string // what Envoys send; empty for none
}

func startFleet(t *testing.T, sotw bool, args ...string) *fleet {
	consul := testenv.StartConsul(t)
	f := &fleet{t: t, consul: consul, sotw: sotw}
	f.catenary = testenv.StartCatenary(t, consul.Env(), append([]string{"--consul-addr", consul.HTTPAddr()}, args...)...)
	testenv.Eventually(t, patience, f.catenary.Ready)
	return f
}

// bothForms runs a test with both forms of the protocol.
func bothForms(t *testing.T, f func(t *testing.T, sotw bool)) {
	for _, form := range []string{"delta", "sotw"} {
		t.Run(form, func(t *testing.T) { f(t, form == "sotw") })
	}
}

// envoy starts an Envoy as `catenary bootstrap envoy` writes it.
func (f *fleet) envoy(service string, upstreams ...string) *testenv.Envoy {
	f.t.Helper()
	return startEnvoyAs(f.t, f.token, f.catenary, f.sotw, service, upstreams...)
}

func startEnvoy(t *testing.T, c *testenv.Catenary, sotw bool, service string, upstreams ...string) *testenv.Envoy {
	t.Helper()
	return startEnvoyAs(t, "", c, sotw, service, upstreams...)
}

func startEnvoyAs(t *testing.T, token string, c *testenv.Catenary, sotw bool, service string, upstreams ...string) *testenv.Envoy {
	t.Helper()
	args := []string{
		"bootstrap", "envoy", "--service", service, "--proxy-id", service + "-1",
		"--grpc-addr", c.GRPCAddr, "--admin-bind", "127.0.0.1:0",
	}
	for _, u := range upstreams {
		args = append(args, "--upstream", u)
	}
	if sotw {
		args = append(args, "--sotw")
	}
	r := testenv.Run(t, []string{"CONSUL_HTTP_TOKEN=" + token}, args...)
	if r.Code != 0 {
		t.Fatalf("catenary %v: exit %d: %s", args, r.Code, r.Stderr)
	}
	return testenv.StartEnvoy(t, []byte(r.Stdout))
}

// port returns a free port and the flag value of an upstream that binds it.
func port(t *testing.T, service string) (int, string) {
	p := testenv.FreePort(t)
	return p, fmt.Sprintf("%s:%d", service, p)
}

// register registers a backend as an instance.
func (f *fleet) register(service string, b *testenv.Backend) {
	f.consul.RegisterService(testenv.Service{
		Name: service, ID: service + "-" + b.Version, Port: b.Port,
		Meta: map[string]string{"version": b.Version},
	})
}

// http declares that services speak HTTP.
func (f *fleet) http(services ...string) {
	for _, s := range services {
		f.consul.WriteEntry(fmt.Sprintf("Kind = %q\nName = %q\nProtocol = %q\n", "service-defaults", s, "http"))
	}
}

// subsets declares the versions of a service.
func (f *fleet) subsets(service string, versions ...string) {
	var b strings.Builder
	fmt.Fprintf(&b, "Kind = %q\nName = %q\nSubsets = {\n", "service-resolver", service)
	for _, v := range versions {
		fmt.Fprintf(&b, "  %s = { Filter = \"Service.Meta.version == %s\" }\n", v, v)
	}
	b.WriteString("}\n")
	f.consul.WriteEntry(b.String())
}

// split writes a splitter of v1 and v2.
func (f *fleet) split(service string, v1, v2 int) {
	f.consul.WriteEntry(fmt.Sprintf(`
Kind = "service-splitter"
Name = %q
Splits = [
  { Weight = %d, ServiceSubset = "v1" },
  { Weight = %d, ServiceSubset = "v2" },
]
`, service, v1, v2))
}

// tally counts who answers n requests; answers other than 200 count by their status.
func tally(port, n int) map[string]int {
	got := map[string]int{}
	for range n {
		code, body, err := testenv.Get(fmt.Sprintf("http://127.0.0.1:%d/", port), nil)
		switch {
		case err != nil:
			body = "no answer"
		case code != 200:
			body = fmt.Sprint(code)
		}
		got[strings.TrimSpace(body)]++
	}
	return got
}

// answers waits until ten requests in a row are answered alike.
func answers(t *testing.T, port int, want string) {
	t.Helper()
	testenv.Eventually(t, patience, func() error {
		if got := tally(port, 10); got[want] != 10 {
			return fmt.Errorf("answered %v, want %s", got, want)
		}
		return nil
	})
}

// stays fails when a request within the time is answered otherwise.
func stays(t *testing.T, port int, d time.Duration, want string) {
	t.Helper()
	testenv.Throughout(t, d, func() error {
		if got := tally(port, 1); got[want] != 1 {
			return fmt.Errorf("answered %v, want %s throughout", got, want)
		}
		return nil
	})
}

// proxies returns what catenary says of its clients.
func proxies(c *testenv.Catenary) ([]xds.ProxyStatus, error) {
	var list []xds.ProxyStatus
	err := c.API("/api/v1/proxies", &list)
	return list, err
}

// proxy waits until a proxy is in a state.
func proxy(t *testing.T, c *testenv.Catenary, id, state string) (found xds.ProxyStatus) {
	t.Helper()
	testenv.Eventually(t, patience, func() error {
		list, err := proxies(c)
		if err != nil {
			return err
		}
		for _, p := range list {
			if p.ID == id && p.State == state {
				found = p
				return nil
			}
		}
		return fmt.Errorf("no proxy %s is %s: %+v", id, state, list)
	})
	return found
}
