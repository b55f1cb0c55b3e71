package hds_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// TestCheckersUseRESTWhereThatIsAskedFor sends what a checker says first to the HTTP side of the program.
func TestCheckersUseRESTWhereThatIsAskedFor(t *testing.T) {
	t.Parallel()
	defer http.DefaultClient.CloseIdleConnections()
	for _, asked := range []bool{false, true} {
		var args []string
		if asked {
			args = []string{"--hds-rest"}
		}
		f := startFleet(t, append(args, "--hds-report-interval", "20s")...) // a lease is of a minute
		f.write("api.hcl", instance("api", "api-1", testenv.FreePort(t), fast("hds-protocol", "tcp")...))
		for path, form := range map[string]string{"/v3/discovery:health_check": "fetch v3", "/v2/discovery:health_check": "fetch v2"} {
			f.fetches(path, form, asked)
		}
		const once = "checkers are believed to be who they say they are"
		if n := strings.Count(f.catenary.Log(), once); n != 1 {
			t.Errorf("it is said %d times that %s", n, once)
		}
	}
}

// fetches has a checker of a form send its first message.
func (f *fleet) fetches(path, form string, asked bool) {
	f.t.Helper()
	hello := fmt.Sprintf(`{"health_check_request": {"node": {"id": %q, "cluster": "web"}, "capability": {"health_check_protocols": ["TCP"]}}}`, form)
	resp, err := http.Post("http://"+f.catenary.AdminAddr+path, "application/json", strings.NewReader(hello))
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || (resp.StatusCode == http.StatusOK) != asked {
		f.t.Fatalf("%s, asked for %t: status %d, %s, %v", path, asked, resp.StatusCode, body, err)
	}
	if !asked {
		return
	}
	if !strings.Contains(string(body), `"interval"`) {
		f.t.Errorf("%s: %s", path, body)
	}
	r := testenv.Run(f.t, nil, "checkers", "--admin-addr", f.catenary.AdminAddr)
	if r.Code != 0 || !strings.Contains(r.Stdout, form) {
		f.t.Errorf("%s: exit %d\n%s%s", path, r.Code, r.Stdout, r.Stderr)
	}
}
