package xds_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// meshBackend answers with its version over mutual TLS, as a service, to whoever has a certificate of the mesh.
// It says by what name it was asked for, and who asked.
func (m *mesh) meshBackend(service, version string) *testenv.Backend {
	m.t.Helper()
	lis, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{m.ca.issue(spiffe + service)},
		ClientCAs: m.ca.pool(), ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"h2", "http/1.1"},
	})
	if err != nil {
		m.t.Fatal(err)
	}
	server := &http.Server{
		ReadHeaderTimeout: 5 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Sni", r.TLS.ServerName)
			w.Header().Set("X-Caller", r.TLS.PeerCertificates[0].URIs[0].String())
			fmt.Fprintln(w, version)
		}),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(lis) }()
	m.t.Cleanup(func() {
		_ = server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			m.t.Errorf("a backend of the mesh: %v", err)
		}
	})
	return &testenv.Backend{Port: lis.Addr().(*net.TCPAddr).Port}
}

// reaches registers the sidecars by which a service is reached.
func (m *mesh) reaches(service string, list ...*facts.Instance) {
	m.store.Commit(func(tx *facts.Tx) { tx.Instances(facts.Connect("dc1", service), list, confirmed) })
}

// asked is what became of one request, and the headers of its answer.
func asked(client *http.Client, port int) (string, http.Header, error) {
	resp, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/", port))
	if err != nil {
		return "", nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Sprint(resp.StatusCode), resp.Header, nil
	}
	body := make([]byte, 100)
	n, _ := resp.Body.Read(body)
	return strings.TrimSpace(string(body[:n])), resp.Header, nil
}

func TestASidecarShowsWhoItIsAndWantsToKnowWhoAnswers(t *testing.T) {
	eachEnvoy(t, func(t *testing.T, v testenv.EnvoyVersion) {
		m := startMesh(t)
		m.load("web", sidecarID, "api", "impostor")
		m.entries(chain.KindServiceDefaults, httpDefaults("api"), httpDefaults("impostor"))
		m.reaches("api", at("api-sidecar-proxy", m.meshBackend("api", "v1"), "v1", facts.StatusPassing))
		// Its certificate is of the mesh, and not of the service.
		m.reaches("impostor", at("impostor-sidecar-proxy", m.meshBackend("api", "v2"), "v2", facts.StatusPassing))
		api, impostor := testenv.FreePort(t), testenv.FreePort(t)
		m.sidecar(facts.Proxy{LocalServicePort: 9, Upstreams: []facts.Upstream{
			{DestinationName: "api", LocalBindPort: api}, {DestinationName: "impostor", LocalBindPort: impostor},
		}})
		m.envoy(v).WaitReady()
		answers(t, api, "v1")
		_, header, err := asked(http.DefaultClient, api)
		if err != nil || header.Get("X-Sni") != apiCluster || header.Get("X-Caller") != spiffe+"web" {
			t.Errorf("the other side saw %v (%v)", header, err)
		}
		if got, _, err := asked(http.DefaultClient, impostor); err != nil || got != "503" {
			t.Errorf("who is somebody else answers %q, %v", got, err)
		}
	})
}

func TestASidecarFailsOverToAnotherServiceAndKnowsItToo(t *testing.T) {
	m := startMesh(t)
	m.load("web", sidecarID, "api", "backup")
	m.entries(chain.KindServiceDefaults, httpDefaults("api"), httpDefaults("backup"))
	m.entries(chain.KindServiceResolver, &chain.ServiceResolver{
		Header: chain.Header{Name: "api"}, Failover: map[string]chain.Failover{"*": {Service: "backup"}},
	})
	first := at("api-sidecar-proxy", m.meshBackend("api", "first"), "v1", facts.StatusPassing)
	m.reaches("api", first)
	m.reaches("backup", at("backup-sidecar-proxy", m.meshBackend("backup", "second"), "v1", facts.StatusPassing))
	port := testenv.FreePort(t)
	m.sidecar(facts.Proxy{LocalServicePort: 9, Upstreams: []facts.Upstream{{DestinationName: "api", LocalBindPort: port}}})
	m.envoy(testenv.NewestEnvoy).WaitReady()
	answers(t, port, "first")
	ill := *first
	ill.Checks = []facts.Check{{CheckID: "c", Status: facts.StatusCritical}}
	m.reaches("api", &ill)
	answers(t, port, "second")
	if _, header, err := asked(http.DefaultClient, port); err != nil || header.Get("X-Sni") != "backup.default.dc1.internal.catenary.local" {
		t.Errorf("the second target was asked for as %v (%v)", header, err)
	}
}

func TestAnUpstreamOnASocket(t *testing.T) {
	m := startMesh(t)
	m.load("web", sidecarID, "api")
	m.entries(chain.KindServiceDefaults, httpDefaults("api"))
	m.reaches("api", at("api-sidecar-proxy", m.meshBackend("api", "v1"), "v1", facts.StatusPassing))
	dir, err := os.MkdirTemp("", "s") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "api.sock")
	m.sidecar(facts.Proxy{LocalServicePort: 9, Upstreams: []facts.Upstream{
		{DestinationName: "api", LocalBindSocketPath: path, LocalBindSocketMode: "0600"},
	}})
	m.envoy(testenv.NewestEnvoy).WaitReady()
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}
	defer transport.CloseIdleConnections()
	testenv.Eventually(t, 5*time.Second, func() error {
		got, _, err := asked(&http.Client{Transport: transport}, 1)
		if err == nil && got != "v1" {
			err = fmt.Errorf("answers %q", got)
		}
		return err
	})
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", info, err)
	}
}
