package integration_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
)

// files is a directory that catenary serves.
type files struct {
	t        *testing.T
	dir      string
	catenary *testenv.Catenary
}

func serveFiles(t *testing.T, args ...string) *files {
	f := &files{t: t, dir: t.TempDir()}
	f.catenary = testenv.StartCatenary(t, nil, append([]string{"--from", f.dir}, args...)...)
	testenv.Eventually(t, patience, f.catenary.Ready)
	return f
}

// write replaces a file as editors do: by renaming.
func (f *files) write(name, text string) {
	f.t.Helper()
	tmp := filepath.Join(f.dir, "."+name+".new")
	if err := os.WriteFile(tmp, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(tmp, filepath.Join(f.dir, name)); err != nil {
		f.t.Fatal(err)
	}
}

// problem waits until one is told of with a text.
func (f *files) problem(text string) {
	f.t.Helper()
	testenv.Eventually(f.t, patience, func() error {
		var problems any
		err := f.catenary.API("/api/v1/problems", &problems)
		if err == nil && !strings.Contains(fmt.Sprint(problems), text) {
			err = fmt.Errorf("the problems are %v, and none says %s", problems, text)
		}
		return err
	})
}

func service(name, id string, port int, status string) string {
	return fmt.Sprintf(`
service {
  name = %q
  id   = %q
  port = %d
  meta { version = %q }
  checks = [{ name = "answers", status = %q }]
}
`, name, id, port, strings.TrimPrefix(id, name+"-"), status)
}

const httpEverywhere = `
Kind = "proxy-defaults"
Name = "global"
Config { protocol = "http" }
`

func TestFilesReachEnvoyAndABrokenOneTakesNothingAway(t *testing.T) {
	t.Parallel()
	bothForms(t, func(t *testing.T, sotw bool) {
		f := serveFiles(t)
		v1, v2 := testenv.StartBackend(t, "v1"), testenv.StartBackend(t, "v2")
		f.write("defaults.hcl", httpEverywhere)
		f.write("api.hcl", service("api", "api-v1", v1.Port, "passing")+service("api", "api-v2", v2.Port, "passing"))
		f.write("resolver.json", `{"Kind": "service-resolver", "Name": "api", "DefaultSubset": "v1",
  "Subsets": {"v1": {"Filter": "Service.Meta.version == v1"}, "v2": {"Filter": "Service.Meta.version == v2"}}}`)
		api, up := port(t, "api")
		startEnvoy(t, f.catenary, sotw, "web", up).WaitReady()
		answers(t, api, "v1")

		f.write("splitter.yaml", "kind: service-splitter\nname: api\nsplits:\n  - weight: 100\n    service_subset: v2\n")
		answers(t, api, "v2")

		f.write("splitter.yaml", "kind: service-splitter\nname: api\nsplits:\n  - wieght: 100\n    service_subset: v1\n")
		where := filepath.Join(f.dir, "splitter.yaml") + ":4"
		testenv.Eventually(t, patience, func() error {
			if !strings.Contains(f.catenary.Log(), where) {
				return fmt.Errorf("the log does not name %s:\n%s", where, f.catenary.Log())
			}
			return nil
		})
		f.problem("wieght")
		stays(t, api, 500*time.Millisecond, "v2")

		f.write("splitter.yaml", "kind: service-splitter\nname: api\nsplits:\n  - weight: 100\n    service_subset: v1\n")
		answers(t, api, "v1")
		f.write("api.hcl", service("api", "api-v1", v1.Port, "critical")+service("api", "api-v2", v2.Port, "passing"))
		answers(t, api, "503")
		proxy(t, f.catenary, "web-1", xds.StateSynced)
	})
}

func TestAnEntryThatDoesNotCompileKeepsTheLastGoodChain(t *testing.T) {
	t.Parallel()
	bothForms(t, func(t *testing.T, sotw bool) {
		f := serveFiles(t)
		v1 := testenv.StartBackend(t, "v1")
		f.write("defaults.hcl", httpEverywhere)
		f.write("api.hcl", service("api", "api-v1", v1.Port, "passing"))
		api, up := port(t, "api")
		startEnvoy(t, f.catenary, sotw, "web", up).WaitReady()
		answers(t, api, "v1")

		f.write("splitter.hcl", `
Kind = "service-splitter"
Name = "api"
Splits = [{ Weight = 100, ServiceSubset = "nowhere" }]
`)
		testenv.Eventually(t, patience, func() error {
			if n := f.catenary.Metrics()[`catenary_problems{origin="chains"}`]; n != 1 {
				return fmt.Errorf("the metric counts %v problems, want 1", n)
			}
			return nil
		})
		f.problem("nowhere")
		stays(t, api, 500*time.Millisecond, "v1")
		if n := strings.Count(f.catenary.Log(), `"nowhere"`) + strings.Count(f.catenary.Log(), `\"nowhere\"`); n != 1 {
			t.Errorf("the log tells the problem %d times, want once:\n%s", n, f.catenary.Log())
		}
		// A new proxy gets the last good chain too.
		again, upAgain := port(t, "api")
		startEnvoy(t, f.catenary, sotw, "admin", upAgain).WaitReady()
		answers(t, again, "v1")
	})
}

func TestTheExampleShopIsServed(t *testing.T) {
	t.Parallel()
	c := testenv.StartCatenary(t, nil, "--from", example(t, "shop"))
	testenv.Eventually(t, patience, c.Ready)
	_, up := port(t, "api")
	_, stock := port(t, "stock")
	startEnvoy(t, c, false, "web", up, stock).WaitReady()
	proxy(t, c, "web-1", xds.StateSynced)
	if r := testenv.Run(t, nil, "validate", example(t, "shop")); r.Code != 0 {
		t.Errorf("catenary validate: exit %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
}

func example(t *testing.T, name string) string {
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "examples", name)
}
