package xds_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/bootstrap"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/snapshot"
	"github.com/catenary-mesh/catenary/xds"
)

func TestABootstrapAsksForWhatIsServed(t *testing.T) {
	if want := snapshot.ServerListener + "%s"; bootstrap.GRPCListenerTemplate != want {
		t.Errorf("a bootstrap asks for %q, and %q is served", bootstrap.GRPCListenerTemplate, want)
	}
}

// grpcBootstrap is what catenary bootstrap grpc prints for web; certs is empty outside the mesh.
func (c *control) grpcBootstrap(certs string) []byte {
	c.t.Helper()
	out, err := bootstrap.GRPC(bootstrap.GRPCConfig{Service: "web", GRPCAddr: c.addr, CertDir: certs})
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

// serving waits until a server serves.
func serving(t *testing.T, s *testenv.XDSServer) {
	t.Helper()
	testenv.Eventually(t, 10*time.Second, s.Serving)
}

// certs writes the certificate of web to a directory.
func (m *mesh) certs() string {
	m.t.Helper()
	dir := m.t.TempDir()
	for name, text := range map[string][]byte{
		bootstrap.LeafFile: m.chain, bootstrap.KeyFile: m.key, bootstrap.RootsFile: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: m.ca.cert.Raw}),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			m.t.Fatal(err)
		}
	}
	return dir
}

// callAs calls a server by mutual TLS with the certificate of a service, or by what is empty in plaintext.
func (m *mesh) callAs(service string, port int, method string, opts ...grpc.DialOption) (string, error) {
	creds := insecure.NewCredentials()
	if service != "" {
		creds = credentials.NewTLS(m.dialer(service, "h2"))
	}
	conn, err := grpc.NewClient(fmt.Sprintf("passthrough:///127.0.0.1:%d", port), append(opts, grpc.WithTransportCredentials(creds))...)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return (&testenv.GRPCClient{ClientConn: conn}).Call(ctx, method)
}

// judged waits until the calls of a service end so.
func (m *mesh) judged(service string, port int, method string, want codes.Code) {
	m.t.Helper()
	testenv.Eventually(m.t, 10*time.Second, func() error {
		if _, err := m.callAs(service, port, method); status.Code(err) != want {
			return fmt.Errorf("%q calls %s: %w, want %s", service, method, err, want)
		}
		return nil
	})
}

// intend has intentions of web.
func (m *mesh) intend(sources ...*chain.SourceIntention) {
	m.entries(chain.KindServiceIntentions, &chain.ServiceIntentions{Header: chain.Header{Name: "web"}, Sources: sources})
}

func TestAGRPCServerGetsItsListener(t *testing.T) {
	c := startControl(t, nil)
	c.load("web")
	s := testenv.StartXDSServer(t, c.grpcBootstrap(""), "v1", true)
	serving(t, s)
	conn, err := grpc.NewClient(fmt.Sprintf("passthrough:///127.0.0.1:%d", s.Port), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if who, err := (&testenv.GRPCClient{ClientConn: conn}).Call(within(t, 5*time.Second), "/shop.Shop/Get"); who != "v1" || err != nil {
		t.Errorf("answered %q, %v", who, err)
	}
	c.proxy("web-grpc", xds.StateSynced)
	c.noNack()
}

func TestAGRPCServerOfTheMeshFollowsIntentions(t *testing.T) {
	m := startMesh(t)
	m.entries(chain.KindServiceDefaults, &chain.ServiceDefaults{Header: chain.Header{Name: "web"}, Protocol: "grpc"})
	s := testenv.StartXDSServer(t, m.grpcBootstrap(m.certs()), "v1", true)
	serving(t, s)
	m.judged("api", s.Port, "/shop.Shop/Get", codes.OK)
	if _, err := m.callAs("", s.Port, "/shop.Shop/Get"); status.Code(err) != codes.Unavailable {
		t.Errorf("called in plaintext: %v", err)
	}
	m.intend(&chain.SourceIntention{Name: "api", Action: chain.IntentionDeny})
	m.judged("api", s.Port, "/shop.Shop/Get", codes.PermissionDenied)
	m.judged("db", s.Port, "/shop.Shop/Get", codes.OK)
	m.store.Commit(func(tx *facts.Tx) { tx.DefaultIntention(false) })
	m.intend(&chain.SourceIntention{Name: "api", Permissions: []*chain.IntentionPermission{
		{Action: chain.IntentionDeny, HTTP: &chain.IntentionHTTP{PathExact: "/shop.Shop/Drop"}},
		{Action: chain.IntentionAllow, HTTP: &chain.IntentionHTTP{PathRegex: "/shop\\.Shop/.*|/never", Methods: []string{"PUT", "POST"}}},
	}})
	m.judged("db", s.Port, "/shop.Shop/Get", codes.PermissionDenied)
	m.judged("api", s.Port, "/shop.Shop/Get", codes.OK)
	m.judged("api", s.Port, "/shop.Shop/Drop", codes.PermissionDenied)
	m.judged("api", s.Port, "/other.Other/Get", codes.PermissionDenied)
	m.noNack()
}

// TestWhatAGRPCServerCannotJudgePassesNobody: gRPC refuses a listener with rules about such headers, and would go on
// by those from before.
func TestWhatAGRPCServerCannotJudgePassesNobody(t *testing.T) {
	for _, header := range []string{"grpc-timeout", ":scheme", "token-bin", "TE"} {
		for _, allow := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/default allow=%v", strings.Trim(header, ":"), allow), func(t *testing.T) {
				m := startMesh(t)
				m.store.Commit(func(tx *facts.Tx) { tx.DefaultIntention(allow) })
				m.entries(chain.KindServiceDefaults, &chain.ServiceDefaults{Header: chain.Header{Name: "web"}, Protocol: "grpc"})
				s := testenv.StartXDSServer(t, m.grpcBootstrap(m.certs()), "v1", true)
				serving(t, s)
				about := func(action chain.IntentionAction) *chain.IntentionPermission {
					return &chain.IntentionPermission{Action: action, HTTP: &chain.IntentionHTTP{Header: []chain.IntentionHeader{{Name: header, Exact: "1"}}}}
				}
				m.intend(
					&chain.SourceIntention{Name: "api", Permissions: []*chain.IntentionPermission{about(chain.IntentionDeny), about(chain.IntentionAllow)}},
					&chain.SourceIntention{Name: "db", Action: chain.IntentionAllow},
				)
				m.judged("db", s.Port, "/shop.Shop/Get", codes.OK)
				m.judged("api", s.Port, "/shop.Shop/Get", codes.PermissionDenied)
				m.noNack()
				if p := m.proxy("web-grpc", xds.StateSynced); !strings.Contains(strings.Join(p.Notes, "\n"), "do not judge by") {
					t.Errorf("nothing is noted: %v", p.Notes)
				}
			})
		}
	}
}

func TestAGRPCServerInPlaintextServesNobodyOfTheMesh(t *testing.T) {
	m := startMesh(t)
	s := testenv.StartXDSServer(t, m.grpcBootstrap(m.certs()), "v1", false)
	serving(t, s)
	m.judged("", s.Port, "/shop.Shop/Get", codes.PermissionDenied)
	m.noNack()
}

func TestAGRPCServerWaitsForItsIntentions(t *testing.T) {
	c := startControl(t, func(c *xds.Config) { c.Guard = truster{} })
	c.load("web")
	s := testenv.StartXDSServer(t, c.grpcBootstrap(t.TempDir()), "v1", true)
	p := c.proxy("web-grpc", xds.StatePending)
	if len(p.Pending) != 1 || !strings.Contains(p.Pending[0].Reason, "default-intention") {
		t.Errorf("it waits for %v", p.Pending)
	}
	if err := s.Serving(); err == nil {
		t.Error("it serves while it is not known who may call")
	}
	c.store.Commit(func(tx *facts.Tx) { tx.DefaultIntention(true) })
	serving(t, s)
}
