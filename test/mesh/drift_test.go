package mesh_test

import (
	"strings"
	"testing"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// diff runs `catenary proxies ID --diff` against the Envoy of a service's sidecar.
func (m *mesh) diff(id string, envoy *testenv.Envoy) testenv.Result {
	m.t.Helper()
	return testenv.Run(m.t, nil, "proxies", id, "--diff", "--admin-addr", m.catenary.AdminAddr, "--envoy-admin", envoy.AdminAddr())
}

// Certificates, intentions and what is inside filters are compared too, and nothing of a key is told.
func TestSyncedSidecarsDoNotDiffer(t *testing.T) {
	t.Parallel()
	m := startMesh(t, nil, &member{name: "a", protocol: "http"}, &member{name: "b", protocol: "tcp"}, &member{name: "c", protocol: "grpc"})
	m.directions(m.flows)
	m.consul.WriteEntry("Kind = \"service-intentions\"\nName = \"a\"\nSources { Name = \"b\" Action = \"deny\" }")
	for _, of := range m.members {
		if r := m.diff(of.name+"-sidecar-proxy", of.envoy); r.Code != 0 || r.Stdout+r.Stderr != "" {
			t.Errorf("%s: exit %d:\n%s%s", of.name, r.Code, r.Stdout, r.Stderr)
		}
		var list []struct {
			Resources []struct {
				Type     string
				Resource any
			}
		}
		if err := m.catenary.API("/api/v1/resources/"+of.name+"-sidecar-proxy", &list); err != nil || len(list) != 1 {
			t.Fatalf("%d streams, %v", len(list), err)
		}
		types := map[string]int{}
		for _, r := range list[0].Resources {
			types[r.Type]++
			if fields, ok := r.Resource.(map[string]any); r.Type == "secret" && (!ok || len(fields) != 2) {
				t.Errorf("of a secret is told %v", r.Resource)
			}
		}
		if types["secret"] < 2 || types["extension"] == 0 || types["endpoint"] == 0 {
			t.Errorf("%s has %v", of.name, types)
		}
	}
	if r := m.diff("a-sidecar-proxy", m.members[1].envoy); r.Code != 1 || !strings.Contains(r.Stderr, `is the proxy "b-sidecar-proxy", and not "a-sidecar-proxy"`) {
		t.Errorf("another's Envoy: exit %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
}

// Consul's own server puts certificates into listeners and clusters, and intentions into listeners.
func TestASidecarThatConsulServesIsFound(t *testing.T) {
	t.Parallel()
	m := startMesh(t, nil, &member{name: "a", protocol: "http"}, &member{name: "b", protocol: "http"})
	m.directions(m.flows)
	stranger := *m.members[0]
	stranger.server = byConsul
	envoy := testenv.StartEnvoy(t, m.bootstrap(&stranger, "a"))
	envoy.WaitReady()
	r := m.diff("a-sidecar-proxy", envoy)
	for _, want := range []string{"secret ", ": missing\n", "listener public_listener:", ": differs\n", "transport_socket"} {
		if r.Code != 1 || !strings.Contains(r.Stdout, want) {
			t.Errorf("exit %d, without %q:\n%s%s", r.Code, want, r.Stdout, r.Stderr)
		}
	}
	if strings.Contains(r.Stdout, "PRIVATE KEY") {
		t.Error("a key is told")
	}
}
