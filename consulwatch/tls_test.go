package consulwatch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// reason returns why events cannot be had, once that is known.
func (r *rig) polledFor(topic facts.Topic) string {
	r.Helper()
	reason := ""
	testenv.Eventually(r.T, soon, func() error {
		r.source.mu.Lock()
		defer r.source.mu.Unlock()
		if reason = r.source.polls[topic]; reason == "" {
			return fmt.Errorf("%s is not polled", topic)
		}
		return nil
	})
	return reason
}

func TestServersThatVerifyWhoConnects(t *testing.T) {
	t.Parallel()
	ca := testenv.NewAuthority(t)
	c := testenv.StartConsul(t, testenv.WithTLS(ca, true))
	c.RegisterService(testenv.Service{Name: "api", Port: 8080})
	cert, key := ca.Issue("client")
	stranger := testenv.NewAuthority(t)
	for name, test := range map[string]struct {
		tls    api.TLSConfig
		server string
		fails  string // empty when events are had
	}{
		"with a certificate":      {tls: api.TLSConfig{CAFile: ca.CAFile, CertFile: cert, KeyFile: key}},
		"with a name of its own":  {tls: api.TLSConfig{CAFile: ca.CAFile, CertFile: cert, KeyFile: key, Address: "localhost"}},
		"without a certificate":   {tls: api.TLSConfig{CAFile: ca.CAFile}, fails: "certificate"},
		"without TLS":             {fails: "CONSUL_CLIENT_CERT"},
		"without TLS by demand":   {tls: api.TLSConfig{CAFile: ca.CAFile}, server: "tcp://" + c.RPCAddr(), fails: "CONSUL_CLIENT_CERT"},
		"of an unknown authority": {tls: api.TLSConfig{CAFile: stranger.CAFile, CertFile: cert, KeyFile: key}, fails: "unknown authority"},
		"with another name":       {tls: api.TLSConfig{CAFile: ca.CAFile, CertFile: cert, KeyFile: key, Address: "elsewhere"}, fails: "elsewhere"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := with(c, "")
			cfg.API.TLSConfig = test.tls
			if test.server != "" {
				cfg.Servers = []string{test.server}
			}
			r := run(t, cfg)
			r.store.Need("test", apiHealth)
			r.eventually(instances(apiHealth, facts.Present, "api:passing"))
			if test.fails == "" {
				testenv.Eventually(t, soon, func() error { return r.follows(apiHealth, ModeStreaming, c.RPCAddr()) })
				return
			}
			if reason := r.polledFor(apiHealth); !strings.Contains(reason, test.fails) || !strings.Contains(reason, c.RPCAddr()) {
				t.Errorf("events cannot be had because %q; want it to name the server and %q", reason, test.fails)
			}
		})
	}
}

func TestCertificatesAreReplacedWithoutACut(t *testing.T) {
	t.Parallel()
	ca := testenv.NewAuthority(t)
	c := testenv.StartConsul(t, testenv.WithTLS(ca, true))
	c.RegisterService(testenv.Service{Name: "api", Port: 8080})
	cfg := with(c, "")
	cert, key := ca.Issue("client")
	cfg.API.TLSConfig = api.TLSConfig{CAFile: ca.CAFile, CertFile: cert, KeyFile: key}
	cfg.Limits = impatient()
	cfg.Limits.Reload = 20 * time.Millisecond
	r := run(t, cfg)
	r.store.Need("test", apiHealth)
	testenv.Eventually(t, soon, func() error { return r.follows(apiHealth, ModeStreaming, c.RPCAddr()) })
	held := instances(apiHealth, facts.Present, "api:passing")
	r.eventually(held)

	before, _, _ := r.source.link.get()
	ca.Issue("client")
	testenv.Eventually(t, soon, func() error {
		if now, _, _ := r.source.link.get(); now == before || now == nil {
			return fmt.Errorf("the connection is the one from before, or none")
		}
		return nil
	})
	r.throughout(held)
	testenv.Eventually(t, soon, func() error { return r.follows(apiHealth, ModeStreaming, c.RPCAddr()) })
	c.SetCheck("api", api.HealthCritical)
	r.eventually(instances(apiHealth, facts.Present, "api:critical"))

	if err := os.WriteFile(cert, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	after, _, _ := r.source.link.get()
	r.throughout(instances(apiHealth, facts.Present, "api:critical"))
	if now, _, _ := r.source.link.get(); now != after {
		t.Error("a certificate that is none replaced the connection")
	}
}

func TestATokenIsReplacedInItsFile(t *testing.T) {
	t.Parallel()
	c := shop(t)
	file := filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first, second := c.NewToken(readAll), c.NewToken(readAll)
	write(first)
	cfg := with(c, "")
	cfg.API.TokenFile = file
	cfg.Limits = impatient()
	cfg.Limits.Reload = 20 * time.Millisecond
	r := run(t, cfg)
	r.store.Need("test", apiHealth)
	held := instances(apiHealth, facts.Present, "api:passing")
	r.ready("dc1")
	r.eventually(held)
	write(second)
	testenv.Eventually(t, soon, func() error {
		if r.source.access.secret() != second {
			return fmt.Errorf("the token is the old one")
		}
		return nil
	})
	c.DeleteToken(first)
	r.throughout(held)
	c.SetCheck("api", api.HealthCritical)
	r.eventually(all(instances(apiHealth, facts.Present, "api:critical"), failing(apiHealth, false)))
	testenv.Eventually(t, soon, func() error { return r.follows(apiHealth, ModeStreaming, c.RPCAddr()) })

	weak := c.NewToken("")
	write(weak) // what is held cannot be seen with it
	r.eventually(instances(apiHealth, facts.Suspect, "api:critical"))
	write(second)
	r.eventually(instances(apiHealth, facts.Present, "api:critical"))
}
