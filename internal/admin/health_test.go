package admin_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/catenary-mesh/catenary/internal/admin"
)

// releases is a server on which the service api is frozen, and the operator's token is secret.
func releases(released *string) *admin.Server {
	return admin.New(admin.Config{
		Metrics: http.NotFoundHandler(),
		Health: &admin.Health{
			Services: func(string) []admin.ServiceHealth { return []admin.ServiceHealth{{Service: "api"}} },
			Checkers: func() []admin.Checker { return []admin.Checker{{Checker: "node:c"}} },
			Release: func(name, _ string) bool {
				*released = name
				return name == "api"
			},
			Operator: func(secret string) (bool, error) { return secret == "secret", nil },
		},
	})
}

func TestOnlyThisMachineOrTheOperatorReleases(t *testing.T) {
	for _, c := range []struct {
		name, method, from string
		header             []string
		want               int
	}{
		{"from this machine", http.MethodPost, "127.0.0.1:4000", nil, http.StatusOK},
		{"from this machine by IPv6", http.MethodPost, "[::1]:4000", nil, http.StatusOK},
		{"from another", http.MethodPost, "10.1.2.3:4000", nil, http.StatusForbidden},
		{"from another with the token", http.MethodPost, "10.1.2.3:4000", []string{"Authorization", "Bearer secret"}, http.StatusOK},
		{"with another token", http.MethodPost, "127.0.0.1:4000", []string{"Authorization", "Bearer other"}, http.StatusForbidden},
		{"from a page in a browser", http.MethodPost, "127.0.0.1:4000", []string{"Origin", "http://evil"}, http.StatusForbidden},
		{"a GET", http.MethodGet, "127.0.0.1:4000", nil, http.StatusMethodNotAllowed},
	} {
		released := ""
		r := httptest.NewRequest(c.method, "/api/v1/health/api/release", http.NoBody)
		r.RemoteAddr = c.from
		if len(c.header) > 0 {
			r.Header.Set(c.header[0], c.header[1])
		}
		w := httptest.NewRecorder()
		releases(&released).ServeHTTP(w, r)
		if w.Code != c.want || (released == "api") != (c.want == http.StatusOK) {
			t.Errorf("%s: status %d, want %d; released %q: %s", c.name, w.Code, c.want, released, w.Body)
		}
	}
}

func TestHealthAndCheckersAreRead(t *testing.T) {
	var released string
	server := httptest.NewServer(releases(&released))
	defer server.Close()
	client, ctx := admin.NewClient(server.URL), context.Background()
	services, err := client.Health(ctx, "")
	if err != nil || len(services) != 1 || services[0].Service != "api" {
		t.Errorf("health: %v %v", services, err)
	}
	checkers, err := client.Checkers(ctx)
	if err != nil || len(checkers) != 1 || checkers[0].Checker != "node:c" {
		t.Errorf("checkers: %v %v", checkers, err)
	}
	if err := client.Release(ctx, "api", "secret"); err != nil {
		t.Error(err)
	}
	if err := client.Release(ctx, "db", ""); err == nil || !strings.Contains(err.Error(), "not frozen") {
		t.Errorf("what is not frozen: %v", err)
	}
}
