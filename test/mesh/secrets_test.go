package mesh_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// two are services whose sidecars catenary serves.
func two() []*member {
	return []*member{{name: "a", protocol: "http"}, {name: "b", protocol: "http"}}
}

// silence is how long a client waits for what it should not get.
const silence = time.Second

// namesOf are names by which one could try to get at the key of a service.
func (m *mesh) namesOf(service string) []string {
	m.t.Helper()
	roots, _, err := m.consul.Client().Connect().CARoots(nil)
	if err != nil {
		m.t.Fatal(err)
	}
	id := "/ns/default/dc/dc1/svc/" + service
	return []string{
		"*", service, "Leaf", "LEAF", "leaf/" + service, "leaf:" + service, "leaf?service=" + service, "leaf\n" + service,
		"leaf/../" + service, "../" + service, service + "/leaf", service + "-sidecar-proxy", "default/" + service, "svc/" + service,
		"spiffe://" + roots.TrustDomain + id, id, "xdstp://catenary/envoy.extensions.transport_sockets.tls.v3.Secret/leaf?service=" + service,
		"identity", "key", "roots/" + service,
	}
}

func TestAStreamHasNoKeyButThatOfTheServiceItHasProvedToBe(t *testing.T) {
	t.Parallel()
	m := newMesh(t, []testenv.ConsulOption{testenv.WithACL()}, two()...)
	m.serve(m.consul.Env(), "--consul-grpc-addr", m.consul.GRPCAddr())
	m.sidecars()
	m.directions(m.flows) // so that both keys are there
	a, b := m.members[0], m.members[1]
	own := m.sidecarOf("a", a.token)
	for _, by := range ways() {
		t.Run(string(by), func(t *testing.T) {
			t.Parallel()
			for name, rounds := range map[string][][]string{
				"by names":      {m.namesOf("b"), {"leaf", "roots"}},
				"one by one":    append(each(m.namesOf("b")), []string{"leaf"}, []string{"roots"}),
				"with everyone": {{"*"}, {"leaf", "roots"}},
				"by no name":    {{}, {"leaf", "roots"}},
			} {
				got := own.ask(t.Context(), by, rounds...)
				got.onlyOf(t, "a")
				if t.Failed() {
					t.Fatal(name)
				}
			}
			turned := *own
			turned.later = nodeOf("b-sidecar-proxy", "b")
			turned.ask(t.Context(), by, m.namesOf("b"), []string{"leaf", "roots"}).onlyOf(t, "a")
			m.sidecarOf("b", b.token).ask(t.Context(), by, []string{"leaf", "roots"}).onlyOf(t, "b")
		})
	}
}

func each(names []string) (list [][]string) {
	for _, name := range names {
		list = append(list, []string{name})
	}
	return list
}

// pretence is a client that says it is someone else, or cannot prove who it is.
type pretence struct {
	name string
	*client
	code codes.Code // with which its stream ends; OK where it goes on, and has nothing
	says string     // the text of the status
}

// fruitless checks that clients get nothing at all in any way, and returns what they are told.
func fruitless(t *testing.T, list []pretence) (told []string) {
	t.Helper()
	all := ways()
	replies := make([]*reply, len(list)*len(all))
	var group sync.WaitGroup
	for i := range replies {
		group.Go(func() {
			p, by := list[i/len(all)], all[i%len(all)]
			c := *p.client
			if p.code == codes.OK {
				c.waits = silence
			}
			replies[i] = c.ask(t.Context(), by, []string{"leaf", "roots", "b", "*"})
		})
	}
	group.Wait()
	for i, got := range replies {
		p, by := list[i/len(all)], all[i%len(all)]
		if len(got.secrets) > 0 || got.others > 0 {
			t.Errorf("%s, %s: there are secrets %v and %d other resources", p.name, by, slices.Sorted(maps.Keys(got.secrets)), got.others)
		}
		if st := status.Convert(got.err); st.Code() != p.code || !strings.Contains(st.Message(), p.says) {
			t.Errorf("%s, %s: it ends with %v, want %s with %q", p.name, by, got.err, p.code, p.says)
		}
		told = append(told, fmt.Sprintf("%+v", got.err))
	}
	return told
}

func TestACertificateOfTheMeshProvesItsServiceOnly(t *testing.T) {
	t.Parallel()
	m := newMesh(t, []testenv.ConsulOption{testenv.WithACL()}, two()...)
	server := testenv.NewAuthority(t)
	cert, key := server.Issue("server")
	roots, _, err := m.consul.Client().Connect().CARoots(nil)
	if err != nil {
		t.Fatal(err)
	}
	ca := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(ca, []byte(roots.Roots[0].RootCertPEM), 0o600); err != nil {
		t.Fatal(err)
	}
	m.serve(m.consul.Env(), "--consul-grpc-addr", m.consul.GRPCAddr(), "--grpc-auth", "mtls",
		"--grpc-tls-cert", cert, "--grpc-tls-key", key, "--grpc-tls-ca", ca)
	as := func(certificate string, c *client) *client {
		c.creds = credentials.NewTLS(m.shows(server.CAFile, certificate))
		return c
	}
	a, b := m.members[0], m.members[1]
	for _, by := range ways() {
		rounds := [][]string{m.namesOf("b"), {"leaf", "roots"}}
		as("b", m.sidecarOf("b", "")).ask(t.Context(), by, rounds...).onlyOf(t, "b")
		as("a", m.sidecarOf("a", b.token)).ask(t.Context(), by, rounds...).onlyOf(t, "a")
	}
	stranger := m.sidecarOf("a", "")
	stranger.node = nodeOf("b-sidecar-proxy", "a")
	declares := m.sidecarOf("a", "")
	declares.node = declared(t, "a")
	fruitless(t, []pretence{
		{"another service", as("a", m.sidecarOf("b", "")), codes.PermissionDenied, "/svc/a"},
		{"another service with its token, which does not count", as("a", m.sidecarOf("b", b.token)), codes.PermissionDenied, "/svc/a"},
		{"no certificate", as("", m.sidecarOf("a", a.token)), codes.Unauthenticated, "no certificate"},
		{"other letters", as("A", m.sidecarOf("a", "")), codes.PermissionDenied, "/svc/A"},
		{"other letters of both", as("A", m.sidecarOf("A", "")), codes.OK, ""},
		{"the sidecar of another", as("a", stranger), codes.OK, ""},
		{"no sidecar", as("a", declares), codes.OK, ""},
	})
}

// shows is the TLS of a client that shows the certificate of a service, from Consul; none when it is empty.
func (m *mesh) shows(ca, service string) *tls.Config {
	m.t.Helper()
	pem, err := os.ReadFile(ca)
	if err != nil {
		m.t.Fatal(err)
	}
	cfg := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
	cfg.RootCAs.AppendCertsFromPEM(pem)
	if service == "" {
		return cfg
	}
	leaf, _, err := m.consul.Client().Agent().ConnectCALeaf(service, nil)
	if err != nil {
		m.t.Fatal(err)
	}
	pair, err := tls.X509KeyPair([]byte(leaf.CertPEM), []byte(leaf.PrivateKeyPEM))
	if err != nil {
		m.t.Fatal(err)
	}
	cfg.Certificates = []tls.Certificate{pair}
	return cfg
}

func TestWithoutProofThereAreNoSecrets(t *testing.T) {
	t.Parallel()
	m := newMesh(t, []testenv.ConsulOption{testenv.WithACL()}, two()...)
	a := m.members[0]
	m.serve(m.consul.Env(), "--consul-grpc-addr", m.consul.GRPCAddr(), "--grpc-auth", "none")
	files := testenv.StartCatenary(t, nil, "--from", m.files())
	testenv.Eventually(t, patience, files.Ready)
	fromFiles := m.sidecarOf("a", a.token)
	fromFiles.addr = files.GRPCAddr
	fruitless(t, []pretence{
		{"Consul", m.sidecarOf("a", a.token), codes.OK, ""},
		{"Consul, as another", m.sidecarOf("b", a.token), codes.OK, ""},
		{"files", fromFiles, codes.OK, ""},
	})
	for _, c := range []*testenv.Catenary{m.catenary, files} {
		if n := c.Metrics()["catenary_identity_leafs"]; n != 0 {
			t.Errorf("%v certificates are held for nobody", n)
		}
	}
}

// files writes the services and their sidecars into a directory, in Consul's format.
func (m *mesh) files() string {
	m.t.Helper()
	dir := m.t.TempDir()
	for _, of := range m.members {
		text := fmt.Sprintf("service {\n name = %q\n port = %d\n connect { sidecar_service { port = %d } }\n}\n", of.name, of.port, of.public)
		if err := os.WriteFile(filepath.Join(dir, of.name+".hcl"), []byte(text), 0o600); err != nil {
			m.t.Fatal(err)
		}
	}
	return dir
}
