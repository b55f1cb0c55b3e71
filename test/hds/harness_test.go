// Package hds_test runs the built program with real Envoys that probe real backends for it.
package hds_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/catenary-mesh/catenary/hds/server"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a change may take to arrive on a busy machine.
const patience = 60 * time.Second

// fleet is a catenary over a directory of files, the Envoys that probe for it, and one that follows.
type fleet struct {
	t        *testing.T
	dir      string
	catenary *testenv.Catenary
	env      []string // of what bootstraps are made with
}

func startFleet(t *testing.T, args ...string) *fleet {
	t.Helper()
	f := &fleet{t: t, dir: t.TempDir()}
	f.catenary = testenv.StartCatenary(t, nil, append([]string{"--from", f.dir, "--hds-report-interval", "250ms"}, args...)...)
	testenv.Eventually(t, patience, f.catenary.Ready)
	return f
}

// write replaces a file as editors do: by renaming.
func (f *fleet) write(name, text string) {
	f.t.Helper()
	tmp := filepath.Join(f.dir, "."+name+".new")
	if err := os.WriteFile(tmp, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(tmp, filepath.Join(f.dir, name)); err != nil {
		f.t.Fatal(err)
	}
}

// instance is the definition of an instance, with Meta as key and value in turn.
func instance(service, id string, port int, meta ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "service {\n  name = %q\n  id = %q\n  address = \"127.0.0.1\"\n  port = %d\n  meta {\n", service, id, port)
	for i := 0; i+1 < len(meta); i += 2 {
		fmt.Fprintf(&b, "    %s = %q\n", meta[i], meta[i+1])
	}
	return b.String() + "  }\n}\n"
}

// fast is a probe ten times a second.
func fast(meta ...string) []string { return probe("300ms", meta...) }

// probe is one that may take as long.
func probe(timeout string, meta ...string) []string {
	return append([]string{"hds-interval", "100ms", "hds-timeout", timeout, "hds-healthy-threshold", "1"}, meta...)
}

// checker starts an Envoy that probes.
func (f *fleet) checker(id string, args ...string) *testenv.Envoy {
	f.t.Helper()
	return f.envoy(append([]string{"--service", "checker", "--proxy-id", id, "--hds"}, args...)...)
}

func (f *fleet) envoy(args ...string) *testenv.Envoy {
	f.t.Helper()
	return testenv.StartEnvoy(f.t, f.bootstrap(args...))
}

// bootstrap is what the command line makes.
func (f *fleet) bootstrap(args ...string) []byte {
	f.t.Helper()
	args = append([]string{"bootstrap", "envoy", "--grpc-addr", f.catenary.GRPCAddr, "--admin-bind", "127.0.0.1:0"}, args...)
	r := testenv.Run(f.t, f.env, args...)
	if r.Code != 0 {
		f.t.Fatalf("catenary %v: exit %d: %s", args, r.Code, r.Stderr)
	}
	return []byte(r.Stdout)
}

// follower starts an Envoy that has a service as upstream, and returns what it knows of its endpoints' health:
// by port.
func (f *fleet) follower(service string) func() map[int]string {
	f.t.Helper()
	e := f.envoy("--service", "web", "--upstream", fmt.Sprintf("%s:%d", service, testenv.FreePort(f.t)))
	return func() map[int]string { return healthOf(e, service) }
}

// healthOf is what an Envoy knows of the health of a service's endpoints, by port.
func healthOf(e *testenv.Envoy, service string) map[int]string {
	health := map[int]string{}
	for name, c := range e.Clusters() {
		if !strings.HasPrefix(name, service+".") {
			continue
		}
		for _, h := range c.Hosts {
			health[h.Address.Socket.Port] = h.Health.EDS
		}
	}
	return health
}

// sees waits until an Envoy that follows has a port at a health.
func sees(t *testing.T, health func() map[int]string, port int, want string) {
	t.Helper()
	testenv.Eventually(t, patience, func() error {
		if got := health(); got[port] != want {
			return fmt.Errorf("the port %d is %q, want %s: %v", port, got[port], want, got)
		}
		return nil
	})
}

// checkers waits until as many work.
func (f *fleet) checkers(working int) []server.CheckerStatus {
	f.t.Helper()
	var list []server.CheckerStatus
	testenv.Eventually(f.t, patience, func() error {
		if err := f.catenary.API("/api/v1/checkers", &list); err != nil {
			return err
		}
		n := len(slices.DeleteFunc(slices.Clone(list), func(c server.CheckerStatus) bool { return c.State != "working" }))
		if n != working {
			return fmt.Errorf("%d checkers work, want %d: %+v", n, working, list)
		}
		return nil
	})
	return list
}

// endpoint returns what health discovery knows of a port of a service.
func (f *fleet) endpoint(service string, port int) (server.EndpointHealth, error) {
	f.t.Helper()
	var list []server.ServiceHealth
	if err := f.catenary.API("/api/v1/health/"+service, &list); err != nil {
		return server.EndpointHealth{}, err
	}
	for _, s := range list {
		for _, e := range s.Endpoints {
			if strings.HasSuffix(e.Address, fmt.Sprintf(":%d", port)) {
				return e, nil
			}
		}
	}
	return server.EndpointHealth{}, fmt.Errorf("nothing is known of the port %d of %s", port, service)
}

// up waits until all endpoints of a service are up by the word of all their checkers.
func (f *fleet) up(service string) {
	f.t.Helper()
	testenv.Eventually(f.t, patience, func() error {
		var list []server.ServiceHealth
		if err := f.catenary.API("/api/v1/health/"+service, &list); err != nil {
			return err
		}
		for _, s := range list {
			for _, e := range s.Endpoints {
				if e.Verdict != "up" || len(e.Votes) < 3 || slices.ContainsFunc(e.Votes, func(v server.Vote) bool { return v.Vote != "up" }) {
					return fmt.Errorf("%+v", e)
				}
			}
		}
		if len(list) == 0 {
			return fmt.Errorf("nothing of %s is probed", service)
		}
		return nil
	})
}
