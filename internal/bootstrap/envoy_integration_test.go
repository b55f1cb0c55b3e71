package bootstrap_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	"github.com/catenary-mesh/catenary/internal/bootstrap"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

const deadline = 30 * time.Second

func TestEnvoyAcceptsEveryGolden(t *testing.T) {
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/*.json")
	files = slices.DeleteFunc(files, func(f string) bool { return strings.HasPrefix(filepath.Base(f), "grpc-") })
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			envoy := exec.Command(filepath.Join(root, ".tools", "envoy"), "--mode", "validate", "-l", "warning", "-c", file)
			out, err := envoy.CombinedOutput()
			if err != nil {
				t.Fatalf("%v (make envoy gets Envoy)\n%s", err, out)
			}
			if strings.Contains(string(out), "eprecated") {
				t.Errorf("Envoy warns of what is deprecated:\n%s", out)
			}
		})
	}
}

// hello is how a client introduces itself on its first stream.
type hello struct {
	delta bool
	node  *corev3.Node
	token []string
}

// greeter takes the first request of every stream and then leaves the stream open and silent.
type greeter struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	hellos chan hello
}

func (g *greeter) DeltaAggregatedResources(s discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	req, err := s.Recv()
	if err == nil {
		g.greet(s, hello{delta: true, node: req.GetNode()})
	}
	return err
}

func (g *greeter) StreamAggregatedResources(s discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	req, err := s.Recv()
	if err == nil {
		g.greet(s, hello{node: req.GetNode()})
	}
	return err
}

func (g *greeter) greet(s grpc.ServerStream, h hello) {
	md, _ := metadata.FromIncomingContext(s.Context())
	h.token = md.Get("x-consul-token")
	select {
	case g.hellos <- h:
	default:
	}
	<-s.Context().Done()
}

// serve starts a greeter on a free port of the address and returns the port.
func serve(t *testing.T, host string, opts ...grpc.ServerOption) (g *greeter, addr string) {
	t.Helper()
	g = &greeter{hellos: make(chan hello, 1)}
	return g, serveAs(t, host, g, opts...)
}

// serveAs starts a control plane on a free port of the address and returns where.
func serveAs(t *testing.T, host string, g discoveryv3.AggregatedDiscoveryServiceServer, opts ...grpc.ServerOption) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(opts...)
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, g)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return l.Addr().String()
}

func (g *greeter) await(t *testing.T) hello {
	t.Helper()
	select {
	case h := <-g.hellos:
		return h
	case <-time.After(deadline):
		t.Fatal("Envoy has not come")
		return hello{}
	}
}

func start(t *testing.T, cfg bootstrap.EnvoyConfig) *testenv.Envoy {
	t.Helper()
	cfg.AdminBind = "127.0.0.1:0"
	text, err := bootstrap.Envoy(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return testenv.StartEnvoy(t, text)
}

func TestARealEnvoyIntroducesItself(t *testing.T) {
	upstreams := []bootstrap.Upstream{
		{Service: "api", BindAddress: "127.0.0.1", BindPort: 9191},
		{Service: "stock", Datacenter: "dc2", BindAddress: "127.0.0.1", BindPort: 9292},
	}
	for _, sotw := range []bool{false, true} {
		t.Run(fmt.Sprintf("sotw=%v", sotw), func(t *testing.T) {
			g, addr := serve(t, "127.0.0.1")
			start(t, bootstrap.EnvoyConfig{
				Service: "web", ProxyID: "web-7", Upstreams: upstreams,
				GRPCAddr: addr, Token: "b1gs33cr3t", SotW: sotw,
			})
			h := g.await(t)
			if h.delta == sotw || h.node.GetId() != "web-7" || h.node.GetCluster() != "web" {
				t.Errorf("delta %v, ID %q, cluster %q", h.delta, h.node.GetId(), h.node.GetCluster())
			}
			if !reflect.DeepEqual(h.token, []string{"b1gs33cr3t"}) {
				t.Errorf("token %q", h.token)
			}
			text, err := h.node.GetMetadata().GetFields()[bootstrap.MetadataKey].MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			m, err := bootstrap.ParseMetadata(text)
			if want := (bootstrap.Metadata{Service: "web", Upstreams: upstreams}); err != nil || !reflect.DeepEqual(m, want) {
				t.Errorf("got %+v, %v; want %+v", m, err, want)
			}
		})
	}
}

func TestARealEnvoyVerifiesTheServer(t *testing.T) {
	ca := newCA(t)
	for name, tc := range map[string]struct {
		dial string
		cert tls.Certificate
		ok   bool
	}{
		"by name":         {"localhost", ca.issue(t, "localhost", nil), true},
		"by address":      {"127.0.0.1", ca.issue(t, "", net.IPv4(127, 0, 0, 1)), true},
		"of another name": {"localhost", ca.issue(t, "other.example", nil), false},
	} {
		t.Run(name, func(t *testing.T) {
			g, addr := serve(t, "127.0.0.1", grpc.Creds(credentials.NewServerTLSFromCert(&tc.cert)))
			_, port, err := net.SplitHostPort(addr)
			if err != nil {
				t.Fatal(err)
			}
			e := start(t, bootstrap.EnvoyConfig{
				Service: "web", GRPCAddr: net.JoinHostPort(tc.dial, port), GRPCCA: ca.text,
			})
			if tc.ok {
				g.await(t)
				return
			}
			testenv.Eventually(t, deadline, func() error {
				if n := e.Stats()["cluster.catenary.ssl.fail_verify_san"]; n == 0 {
					return fmt.Errorf("Envoy has refused no certificate")
				}
				return nil
			})
			if len(g.hellos) > 0 {
				t.Error("Envoy spoke to a server it cannot know")
			}
		})
	}
}

// authority is a certificate authority, and its certificate as PEM.
type authority struct {
	text string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newCA(t *testing.T) authority {
	t.Helper()
	template := certificate("test CA")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign
	a := authority{cert: template, key: newKey(t)}
	a.text = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: sign(t, a, template, a.key)}))
	return a
}

// issue returns a server's certificate for a name, an address or both.
func (a authority) issue(t *testing.T, name string, ip net.IP) tls.Certificate {
	t.Helper()
	template := certificate("server")
	if name != "" {
		template.DNSNames = []string{name}
	}
	if ip != nil {
		template.IPAddresses = []net.IP{ip}
	}
	key := newKey(t)
	return tls.Certificate{Certificate: [][]byte{sign(t, a, template, key)}, PrivateKey: key}
}

func certificate(subject string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: subject},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
	}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t *testing.T, a authority, template *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}
