package integration_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/admin"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// verifying has a Consul demand certificates of an authority at its RPC port and at its HTTPS port.
func verifying(ca *testenv.Authority, https int) []testenv.ConsulOption {
	cert, key := ca.Issue("https", "localhost")
	return []testenv.ConsulOption{
		testenv.WithTLS(ca, true), testenv.WithACL(),
		testenv.WithHCL(fmt.Sprintf(`ports { https = %d } tls { https { ca_file = %q, cert_file = %q, key_file = %q, verify_incoming = true } }`,
			https, ca.CAFile, cert, key)),
	}
}

// byEvents waits until a service is followed by events.
func byEvents(t *testing.T, c *testenv.Catenary, topic string) {
	t.Helper()
	testenv.Eventually(t, patience, func() error {
		var list []admin.Watch
		if err := c.API("/api/v1/watches", &list); err != nil {
			return err
		}
		for _, w := range list {
			if w.Topic == topic && w.Mode == "streaming" {
				return nil
			}
		}
		return fmt.Errorf("%s is not followed by events: %+v", topic, list)
	})
}

// The certificates and the token are exchanged under a running catenary: what it serves stays, those from
// before are not used any more, and clients that connect are still asked for their rights.
func TestCertificatesAndTokenAreExchangedWithoutACut(t *testing.T) {
	t.Parallel()
	ca := testenv.NewAuthority(t)
	https := testenv.FreePort(t)
	consul := testenv.StartConsul(t, verifying(ca, https)...)
	cert, key := ca.Issue("catenary")
	file := newTokenFile(t, consul.NewToken(readAll))
	f := &fleet{t: t, consul: consul}
	c := testenv.StartCatenary(t, []string{
		"CONSUL_HTTP_TOKEN_FILE=" + file.name, "CONSUL_CACERT=" + ca.CAFile, "CONSUL_CLIENT_CERT=" + cert, "CONSUL_CLIENT_KEY=" + key,
	}, "--consul-addr", fmt.Sprintf("https://localhost:%d", https))
	f.catenary = c
	f.token = consul.NewToken(`service "web" { policy = "write" } service_prefix "" { policy = "read" }`)
	testenv.Eventually(t, patience, c.Ready)
	f.register("api", testenv.StartBackend(t, "v1"))
	f.http("api")
	api, up := port(t, "api")
	f.envoy("web", up).WaitReady()
	answers(t, api, "v1")
	byEvents(t, c, "health/dc1/api")

	lines := func(text string) int { return strings.Count(c.Log(), text) }
	for _, exchange := range []struct {
		name, says string
		do         func()
	}{
		{"certificates, by a signal", "new_certificates=true", func() {
			ca.Issue("catenary")
			c.Hangup()
		}},
		{"certificates, by their files", "new_certificates=true", func() { ca.Issue("catenary") }},
		{"the token, by a signal", "new_token=true", func() {
			file.write(consul.NewToken(readAll))
			c.Hangup()
		}},
		{"nothing, by a signal", "new_token=false new_certificates=false", c.Hangup},
	} {
		t.Run(exchange.name, func(t *testing.T) {
			f.quiet()
			requests := startTraffic(t, api)
			before, said := sent(c), lines(exchange.says)
			old, err := os.ReadFile(file.name)
			if err != nil {
				t.Fatal(err)
			}
			exchange.do()
			testenv.Eventually(t, 2*patience, func() error {
				if lines(exchange.says) == said {
					return fmt.Errorf("the log does not say %q", exchange.says)
				}
				return nil
			})
			if now, _ := os.ReadFile(file.name); string(now) != string(old) {
				consul.DeleteToken(string(old))
			}
			testenv.Throughout(t, 3*time.Second, func() error { // by then streams have left what they were on
				if n := sent(c) - before; n != 0 {
					return fmt.Errorf("%v responses were sent", n)
				}
				return nil
			})
			byEvents(t, c, "health/dc1/api")
			calm(t, c)
			requests.only(t, "v1")
			f.follows(t, api, "api-v1", "v1")
		})
	}
	if n := lines("[WARN]") - lines("whoever listens on the way"); n > 0 {
		t.Errorf("%d warnings although nothing was wrong:\n%s", n, c.Log())
	}
}

// That what is read again is used shows a Consul that is started anew and believes another authority alone.
func TestAfterAnExchangeOfTheAuthorityThereIsAConnection(t *testing.T) {
	t.Parallel()
	first, second := testenv.NewAuthority(t), testenv.NewAuthority(t)
	https := testenv.FreePort(t)
	options := append(verifying(first, https), testenv.WithDataDir())
	consul := testenv.StartConsul(t, options...)
	cert, key := first.Issue("catenary")
	file := newTokenFile(t, consul.NewToken(readAll))
	f := &fleet{t: t, consul: consul}
	c := testenv.StartCatenary(t, []string{
		"CONSUL_HTTP_TOKEN_FILE=" + file.name, "CONSUL_CACERT=" + first.CAFile, "CONSUL_CLIENT_CERT=" + cert, "CONSUL_CLIENT_KEY=" + key,
	}, "--consul-addr", fmt.Sprintf("https://localhost:%d", https))
	f.catenary = c
	f.token = consul.NewToken(`service "web" { policy = "write" } service_prefix "" { policy = "read" }`)
	testenv.Eventually(t, patience, c.Ready)
	f.register("api", testenv.StartBackend(t, "v1"))
	f.http("api")
	api, up := port(t, "api")
	f.envoy("web", up).WaitReady()
	answers(t, api, "v1")
	requests := startTraffic(t, api)

	exchange(t, first, second)
	consul.Restart()
	byEvents(t, c, "health/dc1/api")
	testenv.Eventually(t, 2*patience, func() error {
		said, err := readyz(c)
		if err == nil && said != "ready" {
			err = errors.New(said)
		}
		return err
	})
	requests.only(t, "v1")
	f.follows(t, api, "api-v1", "v1")
	// Who connects now, with a token not seen before, is asked about over new connections, too.
	f.token = consul.NewToken(`service "web" { policy = "write" } service_prefix "" { policy = "read" }`)
	another, up := port(t, "api")
	f.envoy("web", up).WaitReady()
	answers(t, another, "v1")
}

// exchange puts what another authority issues into the files of the first: its own certificate, and those
// of the servers and of catenary.
func exchange(t *testing.T, first, second *testenv.Authority) {
	t.Helper()
	put := func(from, to string) {
		t.Helper()
		raw, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, raw, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	put(second.CAFile, first.CAFile)
	for _, name := range []string{"server", "https", "catenary"} {
		toCert, toKey := first.Issue(name) // for the names of the files: they are overwritten
		cert, key := second.Issue(name, "server.dc1.consul", "localhost")
		put(cert, toCert)
		put(key, toKey)
	}
}
