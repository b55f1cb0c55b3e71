package xds_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/identity"
	"github.com/catenary-mesh/catenary/snapshot"
	"github.com/catenary-mesh/catenary/xds"
)

// gate is a gRPC server that does nothing but ask a guard.
type gate struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	t     *testing.T
	guard xds.Guard
	addr  string
	log   *journal
}

// StreamAggregatedResources answers with what was granted, and ends when that is revoked.
func (g *gate) StreamAggregatedResources(st discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	req, err := st.Recv()
	if err != nil {
		return err
	}
	grant, err := g.guard.Admit(st.Context(), snapshot.Client{ID: req.GetNode().GetId(), Service: req.GetNode().GetCluster()})
	if err != nil {
		return err
	}
	defer grant.Release()
	said := &discoveryv3.DiscoveryResponse{VersionInfo: grant.Reader}
	if grant.Secrets {
		said.Nonce = "secrets"
	}
	if err := st.Send(said); err != nil {
		return err
	}
	select {
	case <-grant.Revoked:
		return grant.Err()
	case <-st.Context().Done():
		return grant.Err()
	}
}

// journal is a log that can be read.
type journal struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (l *journal) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

func (l *journal) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.String()
}

// startGate starts a gate, with TLS if a configuration is given.
func startGate(t *testing.T, cfg xds.GuardConfig, secure *tls.Config) *gate {
	t.Helper()
	g := &gate{t: t, log: &journal{}}
	cfg.Datacenter, cfg.TrustDomain = "dc1", "td.consul"
	cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: g.log})
	g.guard = xds.NewGuard(cfg)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g.addr = lis.Addr().String()
	creds := insecure.NewCredentials()
	if secure != nil {
		creds = credentials.NewTLS(secure)
	}
	server := grpc.NewServer(grpc.Creds(creds))
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(server, g)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(lis) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return g
}

// knock is a stream to a gate.
type knock struct {
	discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient
}

// knock opens a stream for a service.
func (g *gate) knock(token, service string, secure *tls.Config) knock {
	g.t.Helper()
	creds := insecure.NewCredentials()
	if secure != nil {
		creds = credentials.NewTLS(secure)
	}
	conn, err := grpc.NewClient(g.addr, grpc.WithTransportCredentials(creds))
	if err != nil {
		g.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(g.t.Context(), time.Minute)
	g.t.Cleanup(func() {
		cancel()
		_ = conn.Close()
	})
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "x-consul-token", token)
	}
	st, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		g.t.Fatal(err)
	}
	if err := st.Send(&discoveryv3.DiscoveryRequest{Node: &corev3.Node{Id: service + "-1", Cluster: service}}); err != nil {
		g.t.Fatal(err)
	}
	return knock{st}
}

// admitted returns what was granted.
func (k knock) admitted(t *testing.T) (reader string, secrets bool) {
	t.Helper()
	m, err := k.Recv()
	if err != nil {
		t.Fatalf("not admitted: %v", err)
	}
	return m.GetVersionInfo(), m.GetNonce() != ""
}

// ends expects a status, with a text that has and a text that lacks.
func (k knock) ends(t *testing.T, code codes.Code, has string) {
	t.Helper()
	m, err := k.Recv()
	if st := status.Convert(err); err == nil || st.Code() != code || !strings.Contains(st.Message(), has) {
		t.Errorf("got %v, %v; want %s with %q", m, err, code, has)
	}
}

// rules is a Consul that answers by a table; it has no anonymous rights.
type rules struct {
	mu    sync.Mutex
	table map[string]map[identity.Question]bool
	err   error
}

func (r *rules) Authorize(_ context.Context, token identity.Token, questions []identity.Question) ([]bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return nil, r.err
	}
	may, ok := r.table[token.Secret()]
	if !ok && !token.IsZero() {
		return nil, identity.ErrUnknownToken
	}
	var out []bool
	for _, q := range questions {
		out = append(out, may[q])
	}
	return out, nil
}

// runVerdicts returns verdicts over rules that are asked again every half second.
func runVerdicts(t *testing.T, r *rules) *identity.Verdicts {
	t.Helper()
	v := identity.NewVerdicts(identity.Config{Authorizer: r, Refresh: 500 * time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- v.Run(ctx, facts.New()) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return v
}

const webToken = "7d1ac0de-0000-4000-8000-000000000001"

func webRules() *rules {
	return &rules{table: map[string]map[identity.Question]bool{
		webToken: {{Service: "web", Access: identity.Write}: true},
	}}
}

func TestATokenNeedsTheRightToTheServiceItSpeaksFor(t *testing.T) {
	g := startGate(t, xds.GuardConfig{Tokens: runVerdicts(t, webRules())}, nil)
	if reader, secrets := g.knock(webToken, "web", nil).admitted(t); reader == "" || !secrets {
		t.Errorf("admitted as reader %q, secrets %v", reader, secrets)
	}
	if _, secrets := g.knock(webToken, "", nil).admitted(t); secrets {
		t.Error("who speaks for no service may have secrets")
	}
	g.knock("", "web", nil).ends(t, codes.Unauthenticated, `service:write on "web"`)
	g.knock("wrong", "web", nil).ends(t, codes.Unauthenticated, "does not know the token")
	g.knock(webToken, "api", nil).ends(t, codes.PermissionDenied, `service:write on "api"`)
	g.knock(strings.Repeat("long", 1000), "web", nil).ends(t, codes.Unauthenticated, "no token")
	log := g.log.String()
	for _, want := range []string{"[WARN]", "proxy=api-1", "address=127.0.0.1:", "PermissionDenied", `service:write on`} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %q:\n%s", want, log)
		}
	}
	if strings.Contains(log, webToken) || strings.Contains(log, "wrong") {
		t.Errorf("the log holds a token:\n%s", log)
	}
}

func TestARefusalThatRepeatsIsLoggedOnce(t *testing.T) {
	g := startGate(t, xds.GuardConfig{Tokens: runVerdicts(t, webRules())}, nil)
	for range 20 {
		g.knock(webToken, "api", nil).ends(t, codes.PermissionDenied, "")
	}
	if n := strings.Count(g.log.String(), "was refused"); n != 1 {
		t.Errorf("logged %d times", n)
	}
	for i := range 150 {
		g.knock(webToken, "other"+strings.Repeat("x", i), nil).ends(t, codes.PermissionDenied, "")
	}
	if n := strings.Count(g.log.String(), "was refused"); n != 100 {
		t.Errorf("%d journal for any number of names", n)
	}
}

func TestAStreamEndsWhenItsRightIsTakenAway(t *testing.T) {
	r := webRules()
	g := startGate(t, xds.GuardConfig{Tokens: runVerdicts(t, r)}, nil)
	cut, deleted := g.knock(webToken, "web", nil), g.knock(webToken, "", nil)
	cut.admitted(t)
	deleted.admitted(t)
	r.mu.Lock()
	r.table[webToken] = map[identity.Question]bool{}
	r.mu.Unlock()
	cut.ends(t, codes.PermissionDenied, `lacks service:write on "web"`)
	r.mu.Lock()
	delete(r.table, webToken)
	r.mu.Unlock()
	deleted.ends(t, codes.Unauthenticated, "does not know the token")
	if log := g.log.String(); strings.Count(log, "not served any longer") < 1 || strings.Contains(log, webToken) {
		t.Errorf("the log:\n%s", log)
	}
}

func TestWhoCannotBeAskedAboutMustTryAgain(t *testing.T) {
	r := webRules()
	g := startGate(t, xds.GuardConfig{Tokens: runVerdicts(t, r)}, nil)
	g.knock(webToken, "web", nil).admitted(t)
	r.mu.Lock()
	r.err = &identity.Unreachable{Reason: "connection refused"}
	r.mu.Unlock()
	g.knock("another", "web", nil).ends(t, codes.Unavailable, "try again")
	g.knock(webToken, "web", nil).admitted(t)
}

func TestWithoutAGuardEveryoneIsBelievedAndNoneHasSecrets(t *testing.T) {
	g := startGate(t, xds.GuardConfig{}, nil)
	if reader, secrets := g.knock("", "web", nil).admitted(t); reader != "" || secrets {
		t.Errorf("reader %q, secrets %v", reader, secrets)
	}
}
