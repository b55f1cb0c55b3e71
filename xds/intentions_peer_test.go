package xds_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
)

// denied is an intention about a source.
func denied(name string) *chain.SourceIntention {
	return &chain.SourceIntention{Name: name, Action: chain.IntentionDeny}
}

// talk is an open connection to web, by TCP.
type talk struct {
	conn   *tls.Conn
	answer *bufio.Reader
}

// talks opens a connection of a service, which has carried something.
func (m *mesh) talks(service string) (*talk, error) {
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: 5 * time.Second}, Config: m.dialer(service)}
	conn, err := dialer.DialContext(m.t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", m.port))
	if err != nil {
		return nil, err
	}
	m.t.Cleanup(func() { conn.Close() })
	c := &talk{conn.(*tls.Conn), bufio.NewReader(conn)}
	return c, c.says("hello", "app", "hello")
}

// says sends a line, and awaits lines.
func (c *talk) says(line string, want ...string) error {
	if err := c.conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(c.conn, line); err != nil {
		return err
	}
	for _, w := range want {
		if got, err := c.answer.ReadString('\n'); err != nil || strings.TrimSpace(got) != w {
			return fmt.Errorf("%q, want %q: %w", got, w, err)
		}
	}
	return nil
}

// ends waits until the other side ends it, which must be soon.
func (c *talk) ends(t *testing.T, since time.Time) {
	t.Helper()
	if err := c.conn.SetDeadline(since.Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	_, err := c.answer.ReadString('\n')
	if timeout := net.Error(nil); err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("after %v it is open: %v", time.Since(since), err)
	}
}

// mustTalk waits until a service gets through, and mustNot until it does not.
func (m *mesh) mustTalk(service string) (c *talk) {
	m.t.Helper()
	testenv.Eventually(m.t, 10*time.Second, func() (err error) {
		c, err = m.talks(service)
		return err
	})
	return c
}

func (m *mesh) mustNot(service string) {
	m.t.Helper()
	testenv.Eventually(m.t, 10*time.Second, func() error {
		if _, err := m.talks(service); err == nil {
			return fmt.Errorf("%s gets through", service)
		}
		return nil
	})
}

// turned waits until a request of a service is answered with a status.
func (m *mesh) turned(service string, http2 bool, want int) {
	m.t.Helper()
	testenv.Eventually(m.t, 10*time.Second, func() error {
		code, _, err := m.get(service, "/", http2)
		if err == nil && code != want {
			err = fmt.Errorf("%s is answered %d, want %d", service, code, want)
		}
		return err
	})
}

// undrained fails the test when a listener of an Envoy was changed.
func undrained(t *testing.T, e *testenv.Envoy) {
	t.Helper()
	stats := e.Stats()
	for _, name := range []string{"listener_modified", "listener_in_place_updated", "listener_removed", "total_filter_chains_draining"} {
		if n := stats["listener_manager."+name]; n != 0 {
			t.Errorf("%s: %d", name, n)
		}
	}
}

func TestATighterIntentionEndsWhatItForbidsInBothForms(t *testing.T) {
	forms(t, func(t *testing.T, sotw bool) {
		m := startMesh(t)
		app := testenv.StartTCPBackend(t, "app")
		m.sidecar(facts.Proxy{LocalServicePort: app.Port})
		envoy := m.envoyAt(m.addr, sotw, testenv.NewestEnvoy)
		kept := m.mustTalk("kept")
		for range 2 { // rules that return hold again
			forbidden := m.mustTalk("api")
			begin := time.Now()
			m.intend(denied("api"))
			forbidden.ends(t, begin)
			m.mustNot("api")
			m.intend()
			m.mustTalk("api")
		}
		if err := kept.says("still", "still"); err != nil {
			t.Errorf("who was allowed all the time: %v", err)
		}
		undrained(t, envoy)
		m.proxy(sidecarID, xds.StateSynced)
	})
}

// withoutWasm is a way to the control plane on which Envoys do not say that they run WebAssembly.
func (m *mesh) withoutWasm() (addr string) {
	m.t.Helper()
	conn, err := grpc.NewClient(m.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		m.t.Fatal(err)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		m.t.Fatal(err)
	}
	server := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(server, &bare{up: discoveryv3.NewAggregatedDiscoveryServiceClient(conn)})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(lis) }()
	m.t.Cleanup(func() {
		server.Stop()
		conn.Close()
		if err := <-ended; err != nil {
			m.t.Error(err)
		}
	})
	return lis.Addr().String()
}

// bare hands streams on, without the extensions of nodes.
type bare struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	up discoveryv3.AggregatedDiscoveryServiceClient
}

// DeltaAggregatedResources hands on one stream.
func (b *bare) DeltaAggregatedResources(down discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	up, err := b.up.DeltaAggregatedResources(down.Context())
	if err != nil {
		return err
	}
	go func() {
		for {
			m, err := down.Recv()
			if err != nil {
				_ = up.CloseSend()
				return
			}
			if node := m.GetNode(); node != nil {
				node.Extensions = slices.DeleteFunc(node.Extensions, func(e *corev3.Extension) bool { return strings.Contains(e.GetName(), "wasm") })
			}
			if up.Send(m) != nil {
				return
			}
		}
	}()
	for {
		m, err := up.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = down.Send(m)
		}
		if err != nil {
			return err
		}
	}
}

func TestAnEnvoyWithoutWasmLetsInByTheNewestIntentions(t *testing.T) {
	m := startMesh(t)
	app, web := testenv.StartTCPBackend(t, "app"), testenv.StartBackend(t, "app")
	m.sidecar(facts.Proxy{LocalServicePort: app.Port})
	envoy := m.envoyAt(m.withoutWasm(), false, testenv.NewestEnvoy)
	before := m.mustTalk("api")
	m.intend(denied("api"))
	m.mustNot("api")
	m.mustTalk("kept")
	if err := before.says("still", "still"); err != nil {
		t.Errorf("without the module what is open goes on, and yet: %v", err)
	}
	m.intend()
	m.mustTalk("api")
	undrained(t, envoy)
	if p := m.proxy(sidecarID, xds.StateSynced); !strings.Contains(strings.Join(p.Notes, "\n"), "no WebAssembly") {
		t.Errorf("nothing tells that what is open goes on: %q", p.Notes)
	}
	for _, protocol := range []string{"http", "http2"} {
		m.sidecar(facts.Proxy{LocalServicePort: web.Port, Config: map[string]any{"protocol": protocol}})
		m.turned("api", true, http.StatusOK)
		m.intend(denied("api"))
		m.turned("api", true, http.StatusForbidden)
		m.turned("kept", false, http.StatusOK)
		m.intend()
		m.turned("api", false, http.StatusOK)
	}
	if dump := string(envoy.ConfigDump()); strings.Contains(dump, "catenary-evict") {
		t.Error("there is a module")
	}
	m.proxy(sidecarID, xds.StateSynced)
}

// Consul stores a permission that Envoy refuses, and Envoy refuses all rules with it.
func TestABrokenPermissionLeavesTheOthersInForce(t *testing.T) {
	eachEnvoy(t, func(t *testing.T, v testenv.EnvoyVersion) {
		m := startMesh(t)
		web := testenv.StartBackend(t, "app")
		m.sidecar(facts.Proxy{LocalServicePort: web.Port, Config: map[string]any{"protocol": "http"}})
		m.envoy(v)
		m.turned("api", false, http.StatusOK)
		for _, pattern := range []string{"(", `\x{100}`} {
			broken := &chain.SourceIntention{Name: "broken", Permissions: []*chain.IntentionPermission{
				{Action: chain.IntentionDeny, HTTP: &chain.IntentionHTTP{PathRegex: pattern}},
			}}
			m.intend(broken, denied("api"))
			m.turned("api", false, http.StatusForbidden)
			m.turned("broken", false, http.StatusForbidden)
			m.turned("kept", false, http.StatusOK)
			if p := m.proxy(sidecarID, xds.StateSynced); !strings.Contains(strings.Join(p.Notes, "\n"), "a pattern that Envoy refuses") {
				t.Errorf("nothing tells of it: %q", p.Notes)
			}
			m.intend()
			m.turned("broken", false, http.StatusOK)
		}
	})
}

// While a service changes its protocol, rules of the one kind take the place of those of the other.
func TestAChangeOfProtocolLetsNobodyIn(t *testing.T) {
	m := startMesh(t)
	app, web := testenv.StartTCPBackend(t, "app"), testenv.StartBackend(t, "app")
	m.intend(denied("api"))
	m.sidecar(facts.Proxy{LocalServicePort: web.Port, Config: map[string]any{"protocol": "http"}})
	m.envoy(testenv.NewestEnvoy).WaitReady()
	m.turned("kept", false, http.StatusOK)
	m.turned("api", false, http.StatusForbidden)
	stop := m.insists("api")
	for range 3 {
		m.again(facts.Proxy{LocalServicePort: app.Port})
		m.mustTalk("kept")
		m.again(facts.Proxy{LocalServicePort: web.Port, Config: map[string]any{"protocol": "http2"}})
		m.turned("kept", true, http.StatusOK)
	}
	if n := stop(); n > 0 {
		t.Errorf("api got through %d times", n)
	}
	m.proxy(sidecarID, xds.StateSynced)
}

// A listener that changes drains what is open for minutes, which goes on by the filters that it began with.
func TestAChangeOfProtocolLeavesWhatIsOpen(t *testing.T) {
	m := startMesh(t)
	web := testenv.StartBackend(t, "app")
	m.intend(denied("api"))
	m.sidecar(facts.Proxy{LocalServicePort: web.Port, Config: map[string]any{"protocol": "http"}})
	envoy := m.envoy(testenv.NewestEnvoy)
	m.turned("kept", false, http.StatusOK)
	transport := &http.Transport{TLSClientConfig: m.dialer("kept"), MaxConnsPerHost: 1}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	again := func() error {
		resp, err := client.Get(fmt.Sprintf("https://127.0.0.1:%d/", m.port))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			return fmt.Errorf("answered %d: %w", resp.StatusCode, err)
		}
		return nil
	}
	if err := again(); err != nil {
		t.Fatal(err)
	}
	m.again(facts.Proxy{LocalServicePort: web.Port})
	testenv.Eventually(t, 5*time.Second, func() error {
		if envoy.Stats()["listener_manager.listener_modified"] == 0 {
			return errors.New("the listener is the one before")
		}
		return nil
	})
	testenv.Throughout(t, time.Second, again)
	m.intend(denied("kept"))
	testenv.Eventually(t, 5*time.Second, func() error {
		if again() == nil {
			return errors.New("who is forbidden by now is answered")
		}
		return nil
	})
	m.proxy(sidecarID, xds.StateSynced)
}

// insists tries to get through as a service in every way, one attempt after the other, and returns how often it
// did when it is stopped.
func (m *mesh) insists(service string) (stop func() int) {
	through, end, done := 0, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for http2 := false; ; http2 = !http2 {
			select {
			case <-end:
				return
			default:
			}
			if code, _, err := m.get(service, "/", http2); err == nil && code == http.StatusOK {
				through++
			}
			if _, err := m.talks(service); err == nil {
				through++
			}
		}
	}()
	return func() int {
		close(end)
		<-done
		return through
	}
}
