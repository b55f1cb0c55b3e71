package hds_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// example writes the files of examples/hds, with free ports in place of its own, and returns the commands in their
// first lines without the program's name.
func (f *fleet) example(port int) (commands []string) {
	f.t.Helper()
	_, admin, _ := strings.Cut(f.catenary.AdminAddr, ":")
	at := strings.NewReplacer("18001", admin, "18009", fmt.Sprint(testenv.FreePort(f.t)), "9191", fmt.Sprint(port))
	for _, name := range []string{"services.hcl", "defaults.hcl"} {
		raw, err := os.ReadFile(filepath.Join("..", "..", "examples", "hds", name))
		if err != nil {
			f.t.Fatal(err)
		}
		text := at.Replace(string(raw))
		f.write(name, text)
		for line := range strings.Lines(text) {
			if command, ok := strings.CutPrefix(line, "#   catenary "); ok {
				commands = append(commands, strings.TrimSpace(command))
			}
		}
	}
	return commands
}

// TestTheExampleRuns runs examples/hds by the two commands in its first lines, and then the second checker that they
// speak of.
func TestTheExampleRuns(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	port := testenv.FreePort(t)
	commands := f.example(port)
	// The first is what serves here already, but for where its files are.
	if len(commands) != 3 || commands[0] != "serve --from examples/hds" {
		t.Fatalf("the example says %q", commands)
	}
	first, envoy, _ := strings.Cut(commands[1], " > envoy.json && ")
	second, _, _ := strings.Cut(commands[2], " > ")
	if envoy != "envoy -c envoy.json" {
		t.Fatalf("the example says %q", commands)
	}
	f.envoy(strings.Fields(strings.TrimPrefix(first, "bootstrap envoy "))...)
	testenv.Eventually(t, patience, func() error {
		if err := f.toldOf("web-proxy"); err != nil {
			return err
		}
		for range 10 {
			status, body, err := testenv.Get(fmt.Sprintf("http://127.0.0.1:%d/healthz", port), nil)
			if err != nil || status != http.StatusOK {
				return fmt.Errorf("%d %s %w", status, body, err)
			}
		}
		return nil
	})
	f.envoy(strings.Fields(strings.TrimPrefix(second, "bootstrap envoy "))...)
	testenv.Eventually(t, patience, func() error { return f.toldOf("web-proxy", "checker-2") })
}

// toldOf reports whether catenary health tells of one endpoint that these checkers find up, and one that is down.
func (f *fleet) toldOf(checkers ...string) error {
	r := testenv.Run(f.t, nil, "health", "api", "--admin-addr", f.catenary.AdminAddr)
	bad := r.Code != 1 || strings.Contains(r.Stdout, "unknown")
	for _, c := range checkers {
		bad = bad || !strings.Contains(r.Stdout, "node:"+c+"=up") || !strings.Contains(r.Stdout, "node:"+c+"=down")
	}
	if bad {
		return fmt.Errorf("exit %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	return nil
}
