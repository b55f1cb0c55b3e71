package mesh_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// four are services of all protocols, of which each server serves two.
func four(protocols ...string) []*member {
	names := []string{"a", "b", "c", "d"}
	var list []*member
	for i, p := range protocols {
		m := &member{name: names[i], protocol: p}
		if i >= 2 {
			m.server = byConsul
		}
		list = append(list, m)
	}
	return list
}

func TestSidecarsOfBothServersTalkToEachOther(t *testing.T) {
	t.Parallel()
	for _, protocols := range [][]string{{"http", "tcp", "grpc", "http"}, {"grpc", "http", "tcp", "http2"}} {
		t.Run(strings.Join(protocols, "-"), func(t *testing.T) {
			t.Parallel()
			m := startMesh(t, nil, four(protocols...)...)
			m.directions(m.flows)

			// Denied at one destination after the other, and allowed again.
			for _, to := range m.members {
				var denied strings.Builder
				for _, from := range m.members {
					fmt.Fprintf(&denied, "Sources { Name = %q Action = \"deny\" }\n", from.name)
				}
				m.consul.WriteEntry(fmt.Sprintf("Kind = \"service-intentions\"\nName = %q\n%s", to.name, denied.String()))
			}
			m.directions(m.denied)
			for _, to := range m.members {
				m.consul.DeleteEntry("service-intentions", to.name)
			}
			m.directions(m.flows)
		})
	}
}

func TestPermissionsHoldWhoeverServesTheSidecars(t *testing.T) {
	t.Parallel()
	m := startMesh(t, nil, four("http", "http", "http", "http")...)
	for _, to := range m.members {
		m.consul.WriteEntry(fmt.Sprintf(`
Kind = "service-intentions"
Name = %q
Sources {
  Name = "*"
  Permissions { Action = "allow" HTTP { PathPrefix = "/" Header { Name = "x-key" Exact = "good" } } }
  Permissions { Action = "deny" HTTP { PathPrefix = "/" } }
}`, to.name))
	}
	m.directions(m.denied)
	m.directions(func(from, to *member) {
		testenv.Eventually(t, patience, func() error {
			return callHTTP(fmt.Sprintf("127.0.0.1:%d", from.ports[to.name]), to.name, http.Header{"X-Key": {"good"}})
		})
		if err := callHTTP(fmt.Sprintf("127.0.0.1:%d", from.ports[to.name]), to.name, http.Header{"X-Key": {"bad"}}); err == nil {
			t.Errorf("%s to %s with another key gets through", from.name, to.name)
		}
	})
}
