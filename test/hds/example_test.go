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

// TestTheExampleRuns runs examples/hds as its first lines say, at ports that are free.
func TestTheExampleRuns(t *testing.T) {
	f := startFleet(t)
	_, admin, _ := strings.Cut(f.catenary.AdminAddr, ":")
	at := strings.NewReplacer("18001", admin, "18009", fmt.Sprint(testenv.FreePort(t)))
	for _, name := range []string{"services.hcl", "defaults.hcl"} {
		raw, err := os.ReadFile(filepath.Join("..", "..", "examples", "hds", name))
		if err != nil {
			t.Fatal(err)
		}
		f.write(name, at.Replace(string(raw)))
	}
	port := testenv.FreePort(t)
	f.envoy("--service", "web", "--upstream", fmt.Sprintf("api:%d", port), "--hds")
	testenv.Eventually(t, patience, func() error {
		r := testenv.Run(t, nil, "health", "api", "--admin-addr", f.catenary.AdminAddr)
		if !strings.Contains(r.Stdout, "node:web-proxy=up") || !strings.Contains(r.Stdout, "node:web-proxy=down") || strings.Contains(r.Stdout, "unknown") {
			return fmt.Errorf("%s%s", r.Stdout, r.Stderr)
		}
		for range 10 {
			status, body, err := testenv.Get(fmt.Sprintf("http://127.0.0.1:%d/healthz", port), nil)
			if err != nil || status != http.StatusOK {
				return fmt.Errorf("%d %s %w", status, body, err)
			}
		}
		return nil
	})
}
