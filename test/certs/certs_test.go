package certs_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// writeToken writes a token that may do what the rules say to a file.
func writeToken(t *testing.T, consul *testenv.Consul, rules string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(consul.NewToken(rules)), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestCertsNeedNoMoreThanTheServicesOwnToken: with ACLs and nothing but service:write there are the certificate, its
// key and the roots, whoever makes them.
func TestCertsNeedNoMoreThanTheServicesOwnToken(t *testing.T) {
	t.Parallel()
	consul := testenv.StartConsul(t, testenv.WithACL())
	token := writeToken(t, consul, `service "web" { policy = "write" }`)
	for name, args := range map[string][]string{
		"signed":       {"--consul-grpc-addr", consul.GRPCAddr()},
		"by the agent": nil,
	} {
		t.Run(name, func(t *testing.T) {
			certs := testenv.StartCerts(t, nil, append([]string{"--service", "web", "--consul-addr", consul.HTTPAddr(), "--token-file", token}, args...)...)
			pair, err := certs.Pair()
			if err != nil {
				t.Fatal(err)
			}
			if len(pair.Leaf.URIs) != 1 || !strings.HasSuffix(pair.Leaf.URIs[0].String(), "/ns/default/dc/dc1/svc/web") {
				t.Errorf("the certificate is of %v", pair.Leaf.URIs)
			}
			info, err := os.Stat(filepath.Join(certs.Dir, "key.pem"))
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("the key has mode %v: %v", info.Mode(), err)
			}
			if log := certs.Log(); strings.Contains(log, "PRIVATE") || strings.Count(log, "[WARN]")+strings.Count(log, "[ERROR]") > 0 {
				t.Errorf("the log:\n%s", log)
			}
			if code := certs.Stop(); code != 0 {
				t.Errorf("it ends with %d", code)
			}
			if _, err := certs.Pair(); err != nil {
				t.Errorf("the files went with it: %v", err)
			}
		})
	}
}

func TestCertsOnce(t *testing.T) {
	t.Parallel()
	consul := testenv.StartConsul(t, testenv.WithACL())
	dir := t.TempDir()
	run := func(service, rules string) testenv.Result {
		return testenv.Run(t, nil, "certs", "--once", "--service", service, "--dir", filepath.Join(dir, service),
			"--consul-addr", consul.HTTPAddr(), "--consul-grpc-addr", consul.GRPCAddr(), "--token-file", writeToken(t, consul, rules))
	}
	if r := run("web", `service "web" { policy = "write" }`); r.Code != 0 || r.Stdout+r.Stderr != "" {
		t.Errorf("exit %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	if _, err := os.Stat(filepath.Join(dir, "web", "leaf.pem")); err != nil {
		t.Error(err)
	}
	r := run("api", `service "web" { policy = "write" }`)
	if r.Code != 3 || strings.Count(r.Stderr, "\n") != 1 || !strings.Contains(r.Stderr, "service:write") {
		t.Errorf("without the right: exit %d: %s", r.Code, r.Stderr)
	}
	if _, err := os.Stat(filepath.Join(dir, "api", "leaf.pem")); err == nil {
		t.Error("without the right there is a certificate")
	}
}

// TestCertsOutliveConsul: what there is stays while Consul is away, and is replaced when nobody believes it any more.
func TestCertsOutliveConsul(t *testing.T) {
	t.Parallel()
	consul := testenv.StartConsul(t)
	certs := testenv.StartCerts(t, nil, "--service", "web", "--consul-addr", consul.HTTPAddr(), "--consul-grpc-addr", consul.GRPCAddr())
	before, err := os.ReadFile(filepath.Join(certs.Dir, "leaf.pem"))
	if err != nil {
		t.Fatal(err)
	}
	consul.Stop()
	testenv.Eventually(t, patience, func() error {
		if !strings.Contains(certs.Log(), "cannot be reached") { // refused, or cut by the end of Consul
			return fmt.Errorf("it has not noticed: %s", certs.Log())
		}
		return nil
	})
	after, err := os.ReadFile(filepath.Join(certs.Dir, "leaf.pem"))
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the certificate is another, or gone: %v", err)
	}
	consul.Restart() // as another Consul, with another authority
	testenv.Eventually(t, time.Minute, func() error {
		now, err := os.ReadFile(filepath.Join(certs.Dir, "leaf.pem"))
		if err == nil && bytes.Equal(before, now) {
			err = fmt.Errorf("the certificate is still of the authority that is gone")
		}
		if err == nil {
			_, err = certs.Pair()
		}
		return err
	})
}
