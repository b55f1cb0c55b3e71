//go:build e2e

// Package linkerd_test has clients that are not ours ask as Linkerd's proxies do: one built with the bindings of
// Linkerd's own proxy, and one written from the description of Conduit's protocol alone.
package linkerd_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// patience is how long a change may take to arrive on a busy machine.
const patience = 20 * time.Second

// build is the program in client, built by cargo, which keeps what it has built.
var build = sync.OnceValues(func() (string, error) {
	root, err := testenv.Root()
	if err != nil {
		return "", err
	}
	target := filepath.Join(root, ".tools", "linkerd-client")
	cmd := exec.Command("cargo", "build", "--locked", "--quiet")
	cmd.Dir = filepath.Join(root, "test", "linkerd", "client")
	cmd.Env = append(os.Environ(), "CARGO_TARGET_DIR="+target)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cargo build in %s: %w\n%s", cmd.Dir, err, out)
	}
	return filepath.Join(target, "debug", "linkerd-client"), nil
})

// asker is a running client, whose lines come one by one.
type asker struct {
	t     *testing.T
	lines chan string
	end   func() // it may be called again
}

func ask(t *testing.T, kind, addr, path string, token ...string) *asker {
	t.Helper()
	program, err := build()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, append([]string{kind, "http://" + addr, path}, token...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	a := &asker{t: t, lines: make(chan string, 1000)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(a.lines)
		a.read(out)
	}()
	a.end = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		<-done
		_ = cmd.Wait()
	})
	t.Cleanup(a.end)
	return a
}

func (a *asker) read(out io.Reader) {
	for s := bufio.NewScanner(out); s.Scan(); {
		a.lines <- s.Text()
	}
}

// next is the next message that is not one of those that only show that the server is well.
func (a *asker) next() string {
	a.t.Helper()
	for {
		select {
		case line, ok := <-a.lines:
			if !ok {
				return "over"
			}
			if strings.TrimSpace(line) != "add service=" {
				return line
			}
		case <-time.After(patience):
			return "nothing within " + patience.String()
		}
	}
}

// wants takes messages until one has all the words of the last argument, and fails if one before it has what must
// never be on the way.
func (a *asker) wants(words ...string) {
	a.t.Helper()
	got := a.next()
	for _, word := range words {
		if !strings.Contains(got, word) {
			a.t.Fatalf("got %q, want %q in it", got, word)
		}
	}
}

// scene is a Consul, and a catenary that follows it.
type scene struct {
	*testenv.Consul
	catenary *testenv.Catenary
}

func start(t *testing.T, args ...string) scene {
	consul := testenv.StartConsul(t)
	c := testenv.StartCatenary(t, consul.Env(), args...)
	testenv.Eventually(t, patience, c.Ready)
	return scene{consul, c}
}

// heard returns when catenary has heard of a service: what Consul took in a moment ago it may not know yet.
func (s scene) heard(t *testing.T, service string, addresses ...string) {
	t.Helper()
	s.says(t, "get", service+".service.consul", append(addresses, "add ")...)
}

// says returns when the first answer to a question has all the words.
func (s scene) says(t *testing.T, kind, name string, words ...string) {
	t.Helper()
	testenv.Eventually(t, patience, func() error {
		asked := ask(t, kind, s.catenary.GRPCAddr, name)
		got := asked.next()
		asked.end()
		for _, word := range words {
			if !strings.Contains(got, word) {
				return fmt.Errorf("of %s it says %q", name, got)
			}
		}
		return nil
	})
}

func TestAProxyOfTodayFollowsAService(t *testing.T) {
	s := start(t)
	s.RegisterService(testenv.Service{Name: "api", ID: "api-1", Address: "10.0.0.1", Port: 80})
	s.RegisterService(testenv.Service{Name: "api", ID: "api-2", Address: "10.0.0.2", Port: 80})
	s.heard(t, "api", "10.0.0.1", "10.0.0.2")
	later := ask(t, "get", s.catenary.GRPCAddr, "later.service.consul")
	later.wants("none exists=false")
	get := ask(t, "get", s.catenary.GRPCAddr, "api.service.consul:80", `{"nodeName":"node-1"}`)
	get.wants("add service=api 10.0.0.1:80,weight=10000,instance=api-1,node=node-1,zone_locality=unknown", "10.0.0.2:80")
	s.SetCheck("api-1", api.HealthCritical)
	get.wants("remove 10.0.0.1:80")
	s.SetCheck("api-1", api.HealthPassing)
	get.wants("add service=api 10.0.0.1:80")
	s.Deregister("api-2")
	get.wants("remove 10.0.0.2:80")
	s.SetCheck("api-1", api.HealthCritical)
	get.wants("none exists=true")
	s.Deregister("api-1")
	get.wants("none exists=false")
	s.RegisterService(testenv.Service{Name: "later", ID: "later-1", Address: "10.0.0.9", Port: 80})
	later.wants("add service=later 10.0.0.9:80")
	ask(t, "get", s.catenary.GRPCAddr, "10.0.0.1:80").wants("end InvalidArgument")
}

func TestAProxyOfTodayFollowsFailover(t *testing.T) {
	s := start(t)
	s.RegisterService(testenv.Service{Name: "api", ID: "api-1", Address: "10.0.0.1", Port: 80})
	s.RegisterService(testenv.Service{Name: "spare", ID: "spare-1", Address: "10.0.0.2", Port: 80})
	s.WriteEntry(`Kind = "service-resolver"
Name = "api"
Subsets = { all = {} }
Failover = { "*" = { Service = "spare" } }`)
	s.heard(t, "all.api")
	s.heard(t, "spare")
	get := ask(t, "get", s.catenary.GRPCAddr, "api.service.consul")
	get.wants("add service=api 10.0.0.1:80")
	s.SetCheck("api-1", api.HealthCritical)
	get.wants("add service=spare 10.0.0.2:80")
	get.wants("remove 10.0.0.1:80")
	s.SetCheck("api-1", api.HealthPassing)
	get.wants("add service=api 10.0.0.1:80")
	get.wants("remove 10.0.0.2:80")
}

func TestAProxyOfTodayFollowsAProfile(t *testing.T) {
	s := start(t)
	s.WriteEntry(`Kind = "service-defaults"
Name = "api"
Protocol = "http"`)
	s.RegisterService(testenv.Service{Name: "api", ID: "api-1", Address: "10.0.0.1", Port: 80, Meta: map[string]string{"v": "1"}})
	s.RegisterService(testenv.Service{
		Name: "api-sidecar-proxy", ID: "api-1-proxy", Address: "10.0.0.1", Port: 20000,
		Kind: api.ServiceKindConnectProxy, Proxy: &api.AgentServiceConnectProxyConfig{DestinationServiceName: "api", DestinationServiceID: "api-1"},
	})
	s.heard(t, "api-sidecar-proxy")
	s.heard(t, "api", "10.0.0.1:20000")
	s.says(t, "profile", "api.service.consul:80", "opaque=false")
	profile := ask(t, "profile", s.catenary.GRPCAddr, "api.service.consul:80")
	profile.wants("name=api.service.dc1.consul", "opaque=false", "overrides=api.service.dc1.consul:80=10000", "routes=0")
	s.WriteEntry(`Kind = "service-resolver"
Name = "api"
Subsets = { v1 = { Filter = "Service.Meta.v == 1" } }`)
	s.WriteEntry(`Kind = "service-splitter"
Name = "api"
Splits = [{ Weight = 99.99 }, { Weight = 0.01, ServiceSubset = "v1" }]`)
	profile.wants("overrides=api.service.dc1.consul:80=9999,v1.api.service.dc1.consul:80=1")
	ask(t, "get", s.catenary.GRPCAddr, "api.service.consul").wants("10.0.0.1:20000", "identity=spiffe://", "/svc/api", "server_name=api.default.dc1.internal.")
	ask(t, "profile", s.catenary.GRPCAddr, "10.0.0.1:20000").wants("name= ", "endpoint=10.0.0.1:20000", "identity=spiffe://")
	ask(t, "profile", s.catenary.GRPCAddr, "10.9.9.9:80").wants("name= ", "overrides= ")
	if virtual := virtualIP(s); virtual != "" {
		ask(t, "profile", s.catenary.GRPCAddr, virtual+":80").wants("name=api.service.dc1.consul")
	} else {
		t.Error("Consul has given the service no virtual IP")
	}
}

func virtualIP(s scene) string {
	list, _, err := s.Client().Catalog().Service("api-sidecar-proxy", "", nil)
	if err != nil || len(list) == 0 {
		return ""
	}
	return list[0].ServiceTaggedAddresses["consul-virtual"].Address
}

func TestConsulAwayTakesNothing(t *testing.T) {
	s := start(t)
	s.RegisterService(testenv.Service{Name: "api", ID: "api-1", Address: "10.0.0.1", Port: 80})
	s.heard(t, "api")
	s.Stop()
	again := ask(t, "get", s.catenary.GRPCAddr, "api.service.consul")
	again.wants("add service=api 10.0.0.1:80")
}
