package xds_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/bootstrap"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/snapshot"
	"github.com/catenary-mesh/catenary/xds"
)

// sidecarID is the ID of the sidecar of web.
const sidecarID = "web-sidecar-proxy"

// spiffe begins the identity of a service.
const spiffe = "spiffe://catenary.local/ns/default/dc/dc1/svc/"

// truster gives everyone the certificates of the service that they speak for.
type truster struct{}

func (truster) Admit(context.Context, snapshot.Client) (*xds.Grant, error) {
	return &xds.Grant{Secrets: true, Err: func() error { return nil }, Release: func() {}}, nil
}

// mesh is a control plane with an authority that signed the certificate of web.
type mesh struct {
	*control
	ca         *authority
	chain, key []byte
	port       int
}

func (m *mesh) Pair(facts.Leaf) (certificate, key []byte, ok bool) { return m.chain, m.key, true }

// startMesh has an authority, the certificate of web, and intentions that allow what nothing is said of.
func startMesh(t *testing.T) *mesh {
	t.Helper()
	m := &mesh{ca: newAuthority(t)}
	leaf := m.ca.issue(spiffe + "web")
	der, err := x509.MarshalPKCS8PrivateKey(leaf.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	m.chain = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Certificate[0]})
	m.key = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	m.control = startControl(t, func(c *xds.Config) { c.Guard, c.Secrets = truster{}, m })
	m.load("web", sidecarID)
	m.store.Commit(func(tx *facts.Tx) {
		root := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: m.ca.cert.Raw})
		tx.Roots(facts.Roots{TrustDomain: "catenary.local", List: []facts.Root{{ID: "r", Cert: string(root), Active: true}}})
		tx.Leaf(facts.LeafOf("web"), facts.Leaf{Service: "web", URI: spiffe + "web", Serial: "1"})
		tx.DefaultIntention(true)
	})
	return m
}

// sidecar registers the sidecar of web, at a new port.
func (m *mesh) sidecar(p facts.Proxy) {
	m.t.Helper()
	m.port = testenv.FreePort(m.t)
	m.again(p)
}

// again registers it at the port that it has.
func (m *mesh) again(p facts.Proxy) {
	p.DestinationServiceName = "web"
	m.store.Commit(func(tx *facts.Tx) {
		tx.Instances(facts.Proxies("dc1", "web"), []*facts.Instance{{
			Node:    facts.Node{Node: "n1", Address: "127.0.0.1", Datacenter: "dc1"},
			Service: facts.Service{ID: sidecarID, Service: sidecarID, Kind: "connect-proxy", Address: "127.0.0.1", Port: m.port, Proxy: &p},
		}}, confirmed)
	})
}

// envoy starts the Envoy of the sidecar.
func (m *mesh) envoy(version testenv.EnvoyVersion) *testenv.Envoy {
	m.t.Helper()
	return m.envoyAt(m.addr, false, version)
}

// envoyAt starts it with the control plane at an address.
func (m *mesh) envoyAt(addr string, sotw bool, version testenv.EnvoyVersion) *testenv.Envoy {
	m.t.Helper()
	boot, err := bootstrap.Envoy(bootstrap.EnvoyConfig{
		Service: "web", ProxyID: sidecarID, Upstreams: []bootstrap.Upstream{upstream(m.t, "any")},
		GRPCAddr: addr, AdminBind: "127.0.0.1:0", SotW: sotw,
	})
	if err != nil {
		m.t.Fatal(err)
	}
	var tree map[string]any
	if err := json.Unmarshal(boot, &tree); err != nil {
		m.t.Fatal(err)
	}
	delete(tree["node"].(map[string]any), "metadata")
	if boot, err = json.Marshal(tree); err != nil {
		m.t.Fatal(err)
	}
	return testenv.StartEnvoy(m.t, boot, testenv.WithEnvoyVersion(version), testenv.WithDefaultDrain())
}

// dialer is the TLS of a client of the mesh, with the certificate of a service or, where it is empty, none.
func (m *mesh) dialer(service string, alpn ...string) *tls.Config {
	var show []tls.Certificate
	if service != "" {
		show = append(show, m.ca.issue(spiffe+service))
	}
	c := m.ca.client(show...)
	c.NextProtos = alpn
	c.InsecureSkipVerify = true // the certificates of the mesh have no host names
	c.VerifyConnection = func(state tls.ConnectionState) error {
		shown := state.PeerCertificates[0]
		if len(shown.URIs) != 1 || shown.URIs[0].String() != spiffe+"web" {
			return fmt.Errorf("the sidecar says that it is %v", shown.URIs)
		}
		_, err := shown.Verify(x509.VerifyOptions{Roots: m.ca.pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
		return err
	}
	return c
}

// get asks web for a path through its sidecar, over mutual TLS.
func (m *mesh) get(service, path string, http2 bool) (status int, body string, err error) {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!http2)
	protocols.SetHTTP2(http2)
	transport := &http.Transport{TLSClientConfig: m.dialer(service), Protocols: protocols, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	resp, err := client.Get(fmt.Sprintf("https://127.0.0.1:%d%s", m.port, path))
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, strings.TrimSpace(string(text)), err
}

// answers waits until web answers api through its sidecar.
func (m *mesh) answers(http2 bool, want string) {
	m.t.Helper()
	testenv.Eventually(m.t, 10*time.Second, func() error {
		code, body, err := m.get("api", "/", http2)
		if err == nil && (code != http.StatusOK || body != want) {
			err = fmt.Errorf("answered %d %q, want %q", code, body, want)
		}
		return err
	})
}

// eachEnvoy runs a test with the oldest and the newest Envoy.
func eachEnvoy(t *testing.T, f func(t *testing.T, v testenv.EnvoyVersion)) {
	for _, v := range []testenv.EnvoyVersion{testenv.NewestEnvoy, testenv.OldestEnvoy} {
		t.Run(string(v), func(t *testing.T) { f(t, v) })
	}
}

func TestTheMeshReachesAServiceThroughItsSidecar(t *testing.T) {
	eachEnvoy(t, func(t *testing.T, v testenv.EnvoyVersion) {
		m := startMesh(t)
		app := testenv.StartBackend(t, "app")
		behind := func(config map[string]any) facts.Proxy {
			return facts.Proxy{LocalServicePort: app.Port, Config: config}
		}
		m.sidecar(behind(map[string]any{"protocol": "http"}))
		m.envoy(v).WaitReady()

		m.answers(false, "app")
		caller := app.Last().Header.Get("X-Forwarded-Client-Cert")
		if !strings.Contains(caller, "URI="+spiffe+"api") {
			t.Errorf("the service is not told who calls: %q", caller)
		}
		if code, _, err := m.get("", "/", false); err == nil {
			t.Errorf("who shows no certificate is answered %d", code)
		}
		m.sidecar(behind(map[string]any{"protocol": "http2"}))
		m.answers(true, "app")
		if app.Last().ProtoMajor != 2 {
			t.Errorf("the service was spoken to in %s", app.Last().Proto)
		}
		m.answers(false, "app")
		m.sidecar(behind(map[string]any{"protocol": "tcp"}))
		m.answers(false, "app")
		if code, _, err := m.get("", "/", false); err == nil {
			t.Errorf("tcp: who shows no certificate is answered %d", code)
		}
		m.proxy(sidecarID, xds.StateSynced)
	})
}

func TestAGRPCServiceIsReachedThroughItsSidecar(t *testing.T) {
	eachEnvoy(t, func(t *testing.T, v testenv.EnvoyVersion) {
		m := startMesh(t)
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		server := grpc.NewServer()
		healthpb.RegisterHealthServer(server, health.NewServer())
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(lis) }()
		t.Cleanup(func() {
			server.Stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
		m.sidecar(facts.Proxy{
			LocalServicePort: lis.Addr().(*net.TCPAddr).Port, Config: map[string]any{"protocol": "grpc"},
		})
		m.envoy(v).WaitReady()
		conn, err := grpc.NewClient(fmt.Sprintf("127.0.0.1:%d", m.port), grpc.WithTransportCredentials(credentials.NewTLS(m.dialer("api"))))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		testenv.Eventually(t, 10*time.Second, func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			answer, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
			if err == nil && answer.GetStatus() != healthpb.HealthCheckResponse_SERVING {
				err = fmt.Errorf("answered %v", answer)
			}
			return err
		})
		m.proxy(sidecarID, xds.StateSynced)
	})
}

func TestAServiceOnASocketAndExposedPaths(t *testing.T) {
	eachEnvoy(t, func(t *testing.T, v testenv.EnvoyVersion) {
		m := startMesh(t)
		socket := filepath.Join(t.TempDir(), "app.sock")
		lis, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "socket")
		})}
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(lis) }()
		t.Cleanup(func() {
			server.Close()
			if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
				t.Error(err)
			}
		})
		other := testenv.StartBackend(t, "other")
		exposed, checked := testenv.FreePort(t), testenv.FreePort(t)
		m.sidecar(facts.Proxy{
			LocalServiceSocketPath: socket, Config: map[string]any{"protocol": "http"},
			Expose: chain.Expose{Paths: []chain.ExposePath{
				{ListenerPort: exposed, Path: "/health", LocalPathPort: other.Port},
				{ListenerPort: checked, Path: "/check", LocalPathPort: other.Port, ParsedFromCheck: true},
			}},
		})
		m.envoy(v).WaitReady()
		m.answers(false, "socket")
		for url, want := range map[string]int{
			fmt.Sprintf("http://127.0.0.1:%d/health", exposed):  http.StatusOK,
			fmt.Sprintf("http://127.0.0.1:%d/health/", exposed): http.StatusNotFound,
			fmt.Sprintf("http://127.0.0.1:%d/", exposed):        http.StatusNotFound,
			fmt.Sprintf("http://127.0.0.1:%d/check", checked):   http.StatusOK,
		} {
			code, body, err := testenv.Get(url, nil)
			if err != nil || code != want || code == http.StatusOK && body != "other" {
				t.Errorf("%s without a certificate: %d %q %v, want %d", url, code, body, err, want)
			}
		}
		m.proxy(sidecarID, xds.StateSynced)
	})
}

func TestEnvoyAcceptsEverythingThatShapesWhatComesIn(t *testing.T) {
	eachEnvoy(t, func(t *testing.T, v testenv.EnvoyVersion) {
		m := startMesh(t)
		app := testenv.StartBackend(t, "app")
		everything := func(protocol string) facts.Proxy {
			return facts.Proxy{LocalServicePort: app.Port, Config: map[string]any{
				"protocol": protocol, "local_connect_timeout_ms": 1234, "local_request_timeout_ms": "2345",
				"local_idle_timeout_ms": 0, "max_inbound_connections": 77, "balance_inbound_connections": "exact_balance",
				"max_request_headers_kb": 96,
			}}
		}
		m.sidecar(everything("http"))
		m.envoy(v).WaitReady()
		m.answers(false, "app")
		for _, protocol := range []string{"http2", "grpc", "tcp"} {
			m.sidecar(everything(protocol))
			m.answers(false, "app")
		}
		for _, escaped := range []string{"IMPLEMENTATION_SPECIFIC_DEFAULT", "KEEP_UNCHANGED", "REJECT_REQUEST", "UNESCAPE_AND_REDIRECT", "UNESCAPE_AND_FORWARD"} {
			m.entries(chain.KindMesh, &chain.Mesh{
				Header: chain.Header{Name: chain.MeshName},
				HTTP: &chain.MeshHTTP{Incoming: &chain.MeshIncoming{RequestNormalization: &chain.RequestNormalization{
					MergeSlashes: true, PathWithEscapedSlashesAction: escaped, HeadersWithUnderscoresAction: "DROP_HEADER",
				}}},
				TLS: &chain.MeshTLS{Incoming: &chain.MeshTLSParameters{
					TLSMinVersion: "TLSv1_2", TLSMaxVersion: "TLSv1_3", CipherSuites: []string{"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"},
				}},
			})
			m.sidecar(everything("http"))
			m.answers(false, "app")
		}
		logFile := filepath.Join(t.TempDir(), "access.log")
		for _, logs := range []chain.AccessLogs{{Enabled: true}, {Enabled: true, Type: "file", Path: logFile, TextFormat: "%REQ(:PATH)% %RESPONSE_CODE%"}} {
			m.entries(chain.KindProxyDefaults, &chain.ProxyDefaults{Header: chain.Header{Name: chain.GlobalName}, AccessLogs: &logs})
			m.sidecar(everything("http"))
			m.answers(false, "app")
		}
		testenv.Eventually(t, 15*time.Second, func() error {
			text, err := os.ReadFile(logFile)
			if err == nil && !strings.HasPrefix(string(text), "/ 200\n") {
				err = fmt.Errorf("what is logged is %q", text)
			}
			return err
		})
		if p := m.proxy(sidecarID, xds.StateSynced); p.State != xds.StateSynced {
			t.Errorf("%+v", p)
		}
	})
}
