package main

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"catenary": main})
}

// TestScripts runs the transcripts: one file per verb, with its output formats and its exit codes.
func TestScripts(t *testing.T) {
	examples := filepath.Join(root(t), "examples")
	testscript.Run(t, params("testdata/script", func(env *testscript.Env) error {
		env.Setenv("EXAMPLES", examples)
		for _, name := range []string{"GRPC_ADDR", "HTTP_ADDR"} {
			env.Setenv(name, fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t)))
		}
		return startAdmin(env)
	}))
}

// TestConsulScripts runs the transcripts against a Consul that holds the example for it, without and
// with ACLs.
func TestConsulScripts(t *testing.T) {
	t.Parallel()
	example := filepath.Join(root(t), "examples", "consul")
	for name, options := range map[string][]testenv.ConsulOption{"open": nil, "acl": {testenv.WithACL()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			consul := testenv.StartConsul(t, options...)
			consul.CLI("", "services", "register", filepath.Join(example, "services.hcl"))
			entries, err := filepath.Glob(filepath.Join(example, "config", "*.hcl"))
			if err != nil || len(entries) == 0 {
				t.Fatalf("no config entries in %s: %v", example, err)
			}
			for _, file := range entries {
				consul.CLI("", "config", "write", file)
			}
			blind := ""
			if name == "acl" {
				blind = consul.NewToken("")
			}
			testscript.Run(t, params(filepath.Join("testdata", "consul-"+name), func(env *testscript.Env) error {
				env.Setenv("CONSUL", consul.HTTPAddr())
				env.Setenv("TOKEN", consul.Token())
				env.Setenv("BLIND", blind)
				return nil
			}))
		})
	}
}

func params(dir string, setup func(*testscript.Env) error) testscript.Params {
	return testscript.Params{
		Dir: dir, Setup: setup, RequireExplicitExec: true, RequireUniqueNames: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"answers": answers, "exits": exits, "terminate": terminate,
		},
	}
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
