//go:build e2e

package linkerd_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "github.com/catenary-mesh/catenary/internal/proto/destination"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// revocation is within what time a right that is gone ends what it admitted, on a busy machine.
const revocation = 90 * time.Second

func TestAClientIsServedByItsCertificate(t *testing.T) {
	t.Parallel()
	ours, other := testenv.NewAuthority(t), testenv.NewAuthority(t)
	cert, key := ours.Issue("server")
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	c := testenv.StartCatenary(t, nil, "--from", root+"/examples/linkerd", "--grpc-auth", "mtls",
		"--grpc-tls-cert", cert, "--grpc-tls-key", key, "--grpc-tls-ca", ours.CAFile)
	testenv.Eventually(t, patience, c.Ready)
	mine, myKey := ours.Issue("proxy")
	theirs, theirKey := other.Issue("proxy")
	for _, question := range []string{"get", "profile"} {
		as := func(args ...string) testenv.Result {
			return testenv.Run(t, nil, append([]string{
				"destination", question, "api.service.consul", "--once", "--grpc-addr", c.GRPCAddr, "--grpc-ca-file", ours.CAFile,
			}, args...)...)
		}
		if got := as("--grpc-cert-file", mine, "--grpc-key-file", myKey); got.Code != 0 || !strings.Contains(got.Stdout, "api") {
			t.Errorf("%s with a certificate: %+v", question, got)
		}
		if got := as(); got.Code != 3 || !strings.Contains(got.Stderr, "the client has shown no certificate") || got.Stdout != "" {
			t.Errorf("%s without a certificate: %+v", question, got)
		}
		got := as("--grpc-cert-file", theirs, "--grpc-key-file", theirKey)
		if got.Code != 3 || !strings.Contains(got.Stderr, "of the authority in the server's --grpc-tls-ca") || got.Stdout != "" {
			t.Errorf("%s with a certificate of another authority: %+v", question, got)
		}
	}
	// A proxy has its connection encrypted or it has none.
	if got := ask(t, "get", c.GRPCAddr, "api.service.consul").next(); got != "end Unavailable" {
		t.Errorf("in plaintext: %s", got)
	}
}

// guarded is a Consul with ACLs, and a catenary that asks it what the tokens of clients may.
type guarded struct {
	scene
	t      *testing.T
	client pb.DestinationClient
}

func startGuarded(t *testing.T) guarded {
	consul := testenv.StartConsul(t, testenv.WithACL())
	c := testenv.StartCatenary(t, consul.Env())
	testenv.Eventually(t, patience, c.Ready)
	return guarded{scene: scene{consul, c}, t: t, client: pb.NewDestinationClient(dial(t, c.GRPCAddr))}
}

// heardOf returns when catenary has heard of instances of the services: what Consul took in a moment ago it may not
// know yet.
func (g guarded) heardOf(services ...string) {
	g.t.Helper()
	for _, name := range services {
		testenv.Eventually(g.t, patience, func() error {
			m, err := g.asks("get", name+".service.consul", g.Token())()
			if u, ok := m.(*pb.Update); err == nil && (!ok || u.GetAdd() == nil) {
				err = fmt.Errorf("of %s it says %v", name, m)
			}
			return err
		})
	}
}

// receiver is a stream of either kind.
type receiver func() (any, error)

// asks subscribes with a token, if there is one.
func (g guarded) asks(kind, path, token string) receiver {
	g.t.Helper()
	ctx := g.t.Context()
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "x-consul-token", token)
	}
	q := &pb.GetDestination{Path: path}
	if kind == "profile" {
		return received(g.t, func() (grpc.ServerStreamingClient[pb.DestinationProfile], error) { return g.client.GetProfile(ctx, q) })
	}
	return received(g.t, func() (grpc.ServerStreamingClient[pb.Update], error) { return g.client.Get(ctx, q) })
}

func received[M any](t *testing.T, open func() (grpc.ServerStreamingClient[M], error)) receiver {
	t.Helper()
	st, err := open()
	if err != nil {
		t.Fatal(err)
	}
	return func() (any, error) { return st.Recv() }
}

// served fails unless the stream is told something.
func (r receiver) served(t *testing.T, what string) {
	t.Helper()
	if m, err := r(); err != nil {
		t.Errorf("%s: %v", what, err)
	} else if strings.Contains(fmt.Sprint(m), "no_endpoints") {
		t.Errorf("%s: %v", what, m)
	}
}

// ends fails unless the stream ends so, whatever it was told before.
func (r receiver) ends(ctx context.Context, t *testing.T, code codes.Code, what string) {
	t.Helper()
	ended := make(chan error, 1)
	go func() {
		for {
			if _, err := r(); err != nil {
				ended <- err
				return
			}
		}
	}()
	select {
	case err := <-ended:
		if status.Code(err) != code {
			t.Errorf("%s: it ended with %v, want %v", what, err, code)
		}
	case <-ctx.Done():
		t.Errorf("%s: it was not ended", what)
	}
}

func TestAClientIsServedByItsToken(t *testing.T) {
	t.Parallel()
	g := startGuarded(t)
	for i, name := range []string{"api", "spare", "hidden", "secret"} {
		g.RegisterService(testenv.Service{Name: name, Address: fmt.Sprintf("10.0.0.%d", i+1), Port: 80})
	}
	g.WriteEntry(`Kind = "service-resolver"
Name = "spare"
Failover = { "*" = { Service = "secret" } }`)
	reads := g.NewToken(`service "api" { policy = "read" } service "spare" { policy = "read" }`)
	g.heardOf("api", "spare", "hidden", "secret")

	const api = "api.service.consul"
	deadline, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, kind := range []string{"get", "profile"} {
		g.asks(kind, api, "").ends(deadline, t, codes.Unauthenticated, kind+" without a token")
		g.asks(kind, api, "0a0b0c0d-0000-0000-0000-000000000000").ends(deadline, t, codes.Unauthenticated, kind+" with a token that is none")
		g.asks(kind, api, reads).served(t, kind+" with a token")
		for _, name := range []string{"hidden.service.consul", "nobody.service.consul"} {
			g.asks(kind, name, reads).ends(deadline, t, codes.PermissionDenied, kind+" of "+name+", which the token may not read")
		}
	}
	g.asks("profile", "10.0.0.1:80", reads).served(t, "an instance that may be read")
	g.asks("profile", "10.0.0.3:80", reads).ends(deadline, t, codes.PermissionDenied, "an instance that may not be read")
	g.asks("get", "spare.service.consul", reads).ends(deadline, t, codes.PermissionDenied, "a service that fails over to what may not be read")
	if got := ask(t, "get", g.catenary.GRPCAddr, api).next(); got != "end Unauthenticated" {
		t.Errorf("a proxy, which can send no token: %s", got)
	}
	g.tellsNo(reads)
}

// tellsNo fails if a secret is in what catenary tells of itself.
func (g guarded) tellsNo(secrets ...string) {
	g.t.Helper()
	told := g.catenary.Log()
	for _, path := range []string{"/metrics", "/api/v1/proxies", "/api/v1/problems", "/api/v1/watches"} {
		_, body, err := testenv.Get("http://"+g.catenary.AdminAddr+path, nil)
		if err != nil {
			g.t.Fatal(err)
		}
		told += body
	}
	for _, secret := range append(secrets, g.Token()) {
		if strings.Contains(told, secret) {
			g.t.Error("catenary tells a token")
		}
	}
}

func TestAStreamEndsWithWhatAdmittedIt(t *testing.T) {
	t.Parallel()
	g := startGuarded(t)
	g.RegisterService(testenv.Service{Name: "api", Address: "10.0.0.1", Port: 80})
	g.RegisterService(testenv.Service{Name: "other", Address: "10.0.0.2", Port: 80})
	const rules = `service_prefix "" { policy = "read" }`
	stays, goes, narrows := g.NewToken(rules), g.NewToken(rules), g.NewToken(rules)
	g.heardOf("api", "other")
	type question struct{ kind, path string }
	questions := []question{{"get", "api.service.consul"}, {"profile", "api.service.consul"}, {"profile", "10.0.0.1:80"}}
	open := func(token string, questions ...question) (list []receiver) {
		for _, q := range questions {
			r := g.asks(q.kind, q.path, token)
			r.served(t, q.kind+" "+q.path)
			list = append(list, r)
		}
		return list
	}
	deleted, narrowed := open(goes, questions...), open(narrows, questions...)
	kept := append(open(stays, questions[0]), open(narrows, question{"get", "other.service.consul"})...)
	g.DeleteToken(goes)
	g.SetPolicy(narrows, `service "other" { policy = "read" }`)
	deadline, cancel := context.WithTimeout(t.Context(), revocation)
	defer cancel()
	for i, q := range questions {
		deleted[i].ends(deadline, t, codes.Unauthenticated, q.kind+" "+q.path+" of a token that is gone")
		narrowed[i].ends(deadline, t, codes.PermissionDenied, q.kind+" "+q.path+" of a token that lost its right")
	}
	g.SetCheck("api", api.HealthCritical)
	g.SetCheck("other", api.HealthCritical)
	for _, r := range kept {
		m, err := r()
		for err == nil && fmt.Sprint(m) == beat {
			m, err = r()
		}
		if err != nil || !strings.Contains(fmt.Sprint(m), "no_endpoints") {
			t.Errorf("of a token that kept its right: %v %v", m, err)
		}
	}
	g.tellsNo(stays, goes, narrows)
}

// beat is the message that shows only that the server is well.
var beat = fmt.Sprint(&pb.Update{Update: &pb.Update_Add{Add: &pb.WeightedAddrSet{}}})
