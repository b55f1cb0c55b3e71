package consulwatch

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
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
		"without a certificate":   {tls: api.TLSConfig{CAFile: ca.CAFile}, fails: "accept who connects, by CONSUL_CLIENT_CERT"},
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
	cert, key := ca.Issue("client")
	port := startPort(t, ca, c.RPCAddr())
	cfg := with(c, "")
	cfg.Servers = []string{port.addr}
	cfg.API.TLSConfig = api.TLSConfig{CAFile: ca.CAFile, CertFile: cert, KeyFile: key}
	cfg.Limits = impatient()
	cfg.Limits.Reload = 20 * time.Millisecond
	r := run(t, cfg)
	r.store.Need("test", apiHealth)
	testenv.Eventually(t, soon, func() error { return r.follows(apiHealth, ModeStreaming, port.addr) })
	held := instances(apiHealth, facts.Present, "api:passing")
	r.eventually(held)

	before, _, _ := r.source.link.get()
	shown := port.shown()
	ca.Issue("client")
	testenv.Eventually(t, soon, func() error {
		if now, _, _ := r.source.link.get(); now == before || now == nil {
			return fmt.Errorf("the connection is the one from before, or none")
		}
		return nil
	})
	r.throughout(held)
	testenv.Eventually(t, soon, func() error { return r.follows(apiHealth, ModeStreaming, port.addr) })
	if now := port.shown(); now == shown {
		t.Errorf("the certificate that was shown last is the one from before: %s", now)
	}
	c.SetCheck("api", api.HealthCritical)
	r.eventually(instances(apiHealth, facts.Present, "api:critical"))

	if err := os.WriteFile(cert, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	after, _, _ := r.source.link.get()
	r.throughout(instances(apiHealth, facts.Present, "api:critical"))
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	if now, _, _ := r.source.link.get(); now != after {
		t.Error("a certificate that is none replaced the connection")
	}
	port.cut() // what was read before is still good for another connection
	testenv.Eventually(t, soon, func() error {
		if now, _, _ := r.source.link.get(); now == nil || now == after {
			return fmt.Errorf("there is no other connection")
		}
		return nil
	})
	c.SetCheck("api", api.HealthPassing)
	r.eventually(held)
}

// port is an RPC port with TLS before that of a server, which sees who connects.
type port struct {
	addr string

	mu      sync.Mutex
	clients []string // the serial numbers of their certificates, in the order in which they came
	conns   []net.Conn
}

// startPort starts a port with a certificate of an authority, which a server believes too.
func startPort(t *testing.T, ca *testenv.Authority, to string) *port {
	own, err := tls.LoadX509KeyPair(ca.Issue("port", "server.dc1.consul"))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &port{addr: l.Addr().String()}
	inside := &tls.Config{Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			group.Go(func() { p.pass(c, inside, to) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.cut()
		group.Wait()
	})
	return p
}

// pass lets one connection through, and notes the certificate of the client.
func (p *port) pass(in net.Conn, inside *tls.Config, to string) {
	first := make([]byte, 1)
	if _, err := in.Read(first); err != nil || first[0] != byteTLS {
		in.Close()
		return
	}
	client := tls.Server(in, inside)
	out, err := net.Dial("tcp", to)
	if err != nil || client.Handshake() != nil {
		in.Close()
		return
	}
	outside := &tls.Config{Certificates: inside.Certificates, InsecureSkipVerify: true}
	server := tls.Client(out, outside)
	p.mu.Lock()
	p.clients = append(p.clients, client.ConnectionState().PeerCertificates[0].SerialNumber.String())
	p.conns = append(p.conns, client, server)
	p.mu.Unlock()
	if _, err := out.Write(first); err != nil {
		in.Close()
	}
	var group sync.WaitGroup
	group.Go(func() { pipe(client, server) })
	group.Go(func() { pipe(server, client) })
	group.Wait()
}

// shown returns the certificate that was shown last.
func (p *port) shown() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.clients) == 0 {
		return ""
	}
	return p.clients[len(p.clients)-1]
}

// cut ends the connections there are.
func (p *port) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

// The servers that the agent names are of its own datacenter, and have the names of that.
func TestServersPassOnWhatIsAskedOfAnotherDatacenter(t *testing.T) {
	t.Parallel()
	ca := testenv.NewAuthority(t)
	near := testenv.StartConsul(t, testenv.WithTLS(ca, true))
	far := testenv.StartConsul(t, testenv.WithDatacenter("dc2"), testenv.WithTLS(ca, true), testenv.WithWAN(near))
	far.RegisterService(testenv.Service{Name: "api", Port: 8080})
	cert, key := ca.Issue("client")
	cfg := with(near, "")
	cfg.Datacenter = "dc2"
	cfg.API.TLSConfig = api.TLSConfig{CAFile: ca.CAFile, CertFile: cert, KeyFile: key}
	r := run(t, cfg)
	topic := facts.Health("dc2", "api")
	r.store.Need("test", topic)
	testenv.Eventually(t, 2*soon, func() error { return r.follows(topic, ModeStreaming, near.RPCAddr()) })
	r.eventually(instances(topic, facts.Present, "api:passing"))
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
