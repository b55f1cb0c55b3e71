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

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// patience is how long a change may take to arrive on a busy machine.
const patience = 30 * time.Second

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

// wants takes the next message, which is to have all the words.
func (a *asker) wants(words ...string) string {
	a.t.Helper()
	got := a.next()
	for _, word := range words {
		if !strings.Contains(got, word) {
			a.t.Fatalf("got %q, want %q in it", got, word)
		}
	}
	return got
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
