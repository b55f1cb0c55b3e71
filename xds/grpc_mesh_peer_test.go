package xds_test

import (
	"context"
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	credsxds "google.golang.org/grpc/credentials/xds"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// native is a gRPC server of the mesh with the certificate of a service, which takes only clients of the mesh.
func (m *mesh) native(service, version string) *testenv.GRPCBackend {
	m.t.Helper()
	return testenv.StartGRPCBackend(m.t, version, nil, grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{m.ca.issue(spiffe + service)},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: m.ca.pool(),
	})))
}

// meshClient is a gRPC client of web with the certificates of a directory, or in plaintext if it is not secure.
func (m *mesh) meshClient(name string, secure bool) *testenv.GRPCClient {
	m.t.Helper()
	if !secure {
		return testenv.DialXDS(m.t, m.grpcBootstrap(m.certs()), name)
	}
	return testenv.DialXDS(m.t, m.grpcBootstrap(m.certs()), name, fromXDS(m.t))
}

// fromXDS has a client take its credentials from xDS.
func fromXDS(t *testing.T) grpc.DialOption {
	t.Helper()
	creds, err := credsxds.NewClientCredentials(credsxds.ClientOptions{FallbackCreds: insecure.NewCredentials()})
	if err != nil {
		t.Fatal(err)
	}
	return grpc.WithTransportCredentials(creds)
}

func TestGRPCOfTheMeshDialsOnlyWhoProvesToBeTheService(t *testing.T) {
	m := startMesh(t)
	m.load("web", "api")
	api, stock := m.native("api", "api"), m.native("stock", "stock")
	m.reaches("api", grpcAt("api", api, facts.StatusPassing))
	client := m.meshClient("api", true)
	answered(t, client, "api")

	m.reaches("api", grpcAt("api", stock, facts.StatusPassing))
	testenv.Eventually(t, 10*time.Second, func() error {
		_, err := client.Call(within(t, 5*time.Second), "/shop.Shop/Get")
		if status.Code(err) == codes.Unavailable && strings.Contains(err.Error(), "SAN") {
			return nil
		}
		return context.DeadlineExceeded
	})
	if stock.Count() > 0 {
		t.Error("a server with the certificate of stock was called as api")
	}
	m.noNack()
}

// A client that does not take its credentials from xDS knows nothing of certificates: it gets nowhere.
func TestGRPCOfTheMeshIsNotServedInPlaintext(t *testing.T) {
	m := startMesh(t)
	m.load("web", "api")
	m.reaches("api", grpcAt("api", m.native("api", "api"), facts.StatusPassing))
	if _, err := m.meshClient("api", false).Call(within(t, 5*time.Second), "/shop.Shop/Get"); status.Code(err) != codes.Unavailable {
		t.Errorf("called a server of the mesh in plaintext: %v", err)
	}
}

func TestGRPCOfTheMeshGoesThroughASidecar(t *testing.T) {
	m := startMesh(t)
	app := testenv.StartGRPCBackend(t, "app", nil)
	m.entries(chain.KindServiceDefaults, &chain.ServiceDefaults{Header: chain.Header{Name: "web"}, Protocol: "grpc"})
	m.sidecar(facts.Proxy{LocalServicePort: app.Port, Config: map[string]any{"protocol": "grpc"}})
	m.envoy(testenv.NewestEnvoy).WaitReady()
	m.reaches("web", at(sidecarID, &testenv.Backend{Port: m.port}, "v1", facts.StatusPassing))
	answered(t, m.meshClient("web", true), "app")
	m.noNack()
}
