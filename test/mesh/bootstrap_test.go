package mesh_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// The bootstrap of catenary does for a sidecar what that of Consul's command line does.
func TestASidecarFromItsOwnBootstrap(t *testing.T) {
	t.Parallel()
	web, api := &member{name: "web", protocol: "http"}, &member{name: "api", protocol: "http", server: byConsul}
	m := startMesh(t, []testenv.ConsulOption{testenv.WithACL()}, web, api)
	web.envoy.Stop()

	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(web.token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := func() string { return fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t)) }
	ready, metrics := at(), at()
	boot := testenv.Run(t, nil, "bootstrap", "envoy", "--sidecar-for", "web", "--token-file", token,
		"--consul-addr", "http://"+m.consul.HTTPAddr(), "--grpc-addr", m.catenary.GRPCAddr, "--admin-bind", at(),
		"--ready-bind", ready, "--prometheus-bind", metrics)
	if boot.Code != 0 {
		t.Fatalf("exit %d: %s", boot.Code, boot.Stderr)
	}
	web.envoy = testenv.StartEnvoy(t, []byte(boot.Stdout))
	m.directions(m.flows)
	for url, want := range map[string]string{
		ready + "/ready":     "LIVE",
		metrics + "/metrics": `consul_destination_service="api"`,
	} {
		code, body, err := testenv.Get("http://"+url, nil)
		if err != nil || code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d %v, want %s", url, code, err, want)
		}
	}
}
