package integration_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
)

// shop is a service with a route, a split and a failover, so that an Envoy has resources of every type.
const shop = httpEverywhere + `
---
Kind = "service-router"
Name = "api"
Routes = [{ Match { HTTP { PathPrefix = "/admin" } }, Destination { Service = "stock", RequestTimeout = "7s", NumRetries = 2 } }]
---
Kind = "service-splitter"
Name = "api"
Splits = [{ Weight = 90, ServiceSubset = "v1" }, { Weight = 10, ServiceSubset = "v2" }]
---
Kind = "service-resolver"
Name = "api"
ConnectTimeout = "1500ms"
Subsets = { v1 = { Filter = "Service.Meta.version == v1" }, v2 = { Filter = "Service.Meta.version == v2" } }
LoadBalancer = { Policy = "ring_hash", HashPolicies = [{ Field = "header", FieldValue = "x-user" }] }
---
Kind = "service-resolver"
Name = "stock"
Failover = { "*" = { Service = "db" } }
---
Kind = "service-defaults"
Name = "db"
Protocol = "http"
`

func (f *files) writeAll(text string) {
	f.t.Helper()
	for i, part := range strings.Split(text, "---\n") {
		f.write(string(rune('a'+i))+".hcl", part)
	}
}

// shopping serves the shop to an Envoy.
func shopping(t *testing.T) (*files, string) {
	f := serveFiles(t)
	v1, v2, db := testenv.StartBackend(t, "v1"), testenv.StartBackend(t, "v2"), testenv.StartBackend(t, "db")
	f.writeAll(shop)
	f.write("services.hcl", service("api", "api-v1", v1.Port, "passing")+service("api", "api-v2", v2.Port, "critical")+
		service("db", "db-1", db.Port, "passing")+service("stock", "stock-1", db.Port, "critical"))
	_, up := port(t, "api")
	return f, up
}

// diff runs `catenary proxies web-1 --diff`.
func diff(t *testing.T, f *files, envoy *testenv.Envoy, args ...string) testenv.Result {
	t.Helper()
	return testenv.Run(t, nil, append([]string{
		"proxies", "web-1", "--diff", "--admin-addr", f.catenary.AdminAddr, "--envoy-admin", envoy.AdminAddr(),
	}, args...)...)
}

func TestASyncedEnvoyDoesNotDiffer(t *testing.T) {
	t.Parallel()
	for _, version := range []testenv.EnvoyVersion{testenv.NewestEnvoy, testenv.OldestEnvoy} {
		t.Run(string(version), func(t *testing.T) {
			bothForms(t, func(t *testing.T, sotw bool) {
				f, up := shopping(t)
				envoy := testenv.StartEnvoy(t, bootstrapOf(t, f.catenary, sotw, up), testenv.WithEnvoyVersion(version))
				envoy.WaitReady()
				proxy(t, f.catenary, "web-1", xds.StateSynced)
				if r := diff(t, f, envoy); r.Code != 0 || r.Stdout+r.Stderr != "" {
					t.Errorf("exit %d:\n%s%s", r.Code, r.Stdout, r.Stderr)
				}
				// A change that comes through is no difference, nor is what a new stream brings along.
				f.write("c.hcl", `
Kind = "service-splitter"
Name = "api"
Splits = [{ Weight = 10, ServiceSubset = "v1" }, { Weight = 90, ServiceSubset = "v2" }]
`)
				if r := diff(t, f, envoy); r.Code != 0 || r.Stdout+r.Stderr != "" {
					t.Errorf("after a change: exit %d:\n%s%s", r.Code, r.Stdout, r.Stderr)
				}
				f.catenary.Restart()
				testenv.Eventually(t, patience, f.catenary.Ready)
				proxy(t, f.catenary, "web-1", xds.StateSynced)
				if r := diff(t, f, envoy, "-o", "json"); r.Code != 0 || strings.TrimSpace(r.Stdout) != "[]" {
					t.Errorf("after a restart: exit %d:\n%s%s", r.Code, r.Stdout, r.Stderr)
				}
			})
		})
	}
}

// bootstrapOf is what `catenary bootstrap envoy` writes for the proxy web-1.
func bootstrapOf(t *testing.T, c *testenv.Catenary, sotw bool, upstreams ...string) []byte {
	t.Helper()
	args := []string{
		"bootstrap", "envoy", "--service", "web", "--proxy-id", "web-1", "--grpc-addr", c.GRPCAddr, "--admin-bind", "127.0.0.1:0",
	}
	for _, u := range upstreams {
		args = append(args, "--upstream", u)
	}
	if sotw {
		args = append(args, "--sotw")
	}
	r := testenv.Run(t, nil, args...)
	if r.Code != 0 {
		t.Fatalf("catenary %v: exit %d: %s", args, r.Code, r.Stderr)
	}
	return []byte(r.Stdout)
}

// altered is a bootstrap with a cluster of its own under a name that is also sent.
func altered(t *testing.T, boot []byte, cluster string) []byte {
	t.Helper()
	var b map[string]any
	if err := json.Unmarshal(boot, &b); err != nil {
		t.Fatal(err)
	}
	static := b["static_resources"].(map[string]any)
	static["clusters"] = append(static["clusters"].([]any), map[string]any{
		"name": cluster, "connect_timeout": "1s", "type": "STATIC",
	})
	out, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAStaticOverrideIsFound(t *testing.T) {
	t.Parallel()
	f, up := shopping(t)
	const cluster = "v2.api.default.dc1.internal.catenary.local"
	envoy := testenv.StartEnvoy(t, altered(t, bootstrapOf(t, f.catenary, false, up), cluster))
	envoy.WaitReady()
	r := diff(t, f, envoy)
	if r.Code != 1 || !strings.Contains(r.Stdout, "cluster "+cluster+": overridden") {
		t.Errorf("exit %d:\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	if strings.Contains(r.Stdout, "v1.api") || strings.Contains(r.Stdout, "listener") {
		t.Errorf("what is as it was sent is told of too:\n%s", r.Stdout)
	}
}

func TestWhatAnotherServerSentIsFound(t *testing.T) {
	t.Parallel()
	f, up := shopping(t)
	envoy := testenv.StartEnvoy(t, bootstrapOf(t, f.catenary, false, up))
	envoy.WaitReady()
	proxy(t, f.catenary, "web-1", xds.StateSynced)

	// Another Envoy of that name listens elsewhere and to another server, which has other weights, an instance
	// more, another timeout, and no failover.
	other, otherUp := shopping(t)
	for name, text := range map[string]string{
		"c.hcl": `
Kind = "service-splitter"
Name = "api"
Splits = [{ Weight = 50, ServiceSubset = "v1" }, { Weight = 50, ServiceSubset = "v2" }]
`,
		"e.hcl":    "Kind = \"service-defaults\"\nName = \"stock\"\nProtocol = \"http\"\n",
		"more.hcl": service("api", "api-v2-2", 9, "passing") + service("api", "api-v1-2", 9, "passing"),
	} {
		other.write(name, strings.ReplaceAll(text, `"v2-2"`, `"v2"`))
	}
	stranger := testenv.StartEnvoy(t, bootstrapOf(t, other.catenary, false, otherUp))
	stranger.WaitReady()
	proxy(t, other.catenary, "web-1", xds.StateSynced)
	wants := []string{
		"listener api:127.0.0.1:", ": missing\n", ": not sent\n",
		"route api: differs\n",
		".weight: sent 9000, runs 5000\n",
		"cluster failover-target~0~stock.default.dc1.internal.catenary.local: missing\n",
		"cluster stock.default.dc1.internal.catenary.local: differs\n",
		"endpoint v1.api.default.dc1.internal.catenary.local: differs\n",
	}
	// The files may be read while the Envoy starts.
	testenv.Eventually(t, 2*patience, func() error {
		r := diff(t, f, stranger)
		for _, want := range wants {
			if r.Code != 1 || !strings.Contains(r.Stdout, want) {
				return fmt.Errorf("exit %d, without %q:\n%s%s", r.Code, want, r.Stdout, r.Stderr)
			}
		}
		return nil
	})
	if r := diff(t, other, stranger); r.Code != 0 || r.Stdout != "" {
		t.Errorf("against its own server: exit %d:\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
}

func TestAnEnvoyThatIsNotThereOrAnother(t *testing.T) {
	t.Parallel()
	f, up := shopping(t)
	envoy := testenv.StartEnvoy(t, bootstrapOf(t, f.catenary, false, up))
	envoy.WaitReady()
	for _, tt := range []struct {
		id, at string
		code   int
		want   string
	}{
		{"web-1", "127.0.0.1:1", 3, "no Envoy answers at 127.0.0.1:1: say with --envoy-admin where its admin API is"},
		{"web-1", f.catenary.AdminAddr, 3, "is no Envoy: status 404"},
		{"web-2", envoy.AdminAddr(), 1, "no proxy with the ID web-2 is connected"},
		{"", envoy.AdminAddr(), 2, "--diff is about one proxy: name its ID"},
	} {
		args := []string{"proxies", "--diff", "--admin-addr", f.catenary.AdminAddr, "--envoy-admin", tt.at}
		if tt.id != "" {
			args = append(args, tt.id)
		}
		if r := testenv.Run(t, nil, args...); r.Code != tt.code || !strings.Contains(r.Stderr, tt.want) || r.Stdout != "" {
			t.Errorf("%v: exit %d:\n%s%s", args, r.Code, r.Stdout, r.Stderr)
		}
	}
}

func TestWhatAnEnvoyRefusedIsADifference(t *testing.T) {
	t.Parallel()
	bothForms(t, func(t *testing.T, sotw bool) {
		f, up := shopping(t)
		envoy := testenv.StartEnvoy(t, bootstrapOf(t, f.catenary, sotw, up))
		envoy.WaitReady()
		f.write("b.hcl", "Kind = \"service-router\"\nName = \"api\"\nRoutes = [{ Match { HTTP { PathRegex = \"/(\" } } }]\n")
		proxy(t, f.catenary, "web-1", xds.StateNacked)
		r := diff(t, f, envoy)
		if r.Code != 1 || !strings.HasPrefix(r.Stdout, "route api: refused\n    Envoy's reason: ") || strings.Count(r.Stdout, "\n") != 2 {
			t.Errorf("exit %d:\n%s%s", r.Code, r.Stdout, r.Stderr)
		}
	})
}
