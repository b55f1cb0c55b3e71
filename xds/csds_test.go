package xds_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/catenary-mesh/catenary/internal/bootstrap"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/metrics"
	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
	"github.com/catenary-mesh/catenary/xds/session"
)

// operator has one token.
type operator string

func (o operator) Is(secret string) (bool, error) {
	if o == "" {
		return false, fmt.Errorf("the file is gone")
	}
	return secret == string(o), nil
}

// everyone may ask about everyone.
func everyone(c *xds.Config) { c.Questions.Everyone = true }

// ask asks about clients, once.
func ask(ctx context.Context, conn *grpc.ClientConn, req *statusv3.ClientStatusRequest) ([]*statusv3.ClientConfig, error) {
	out, err := statusv3.NewClientStatusDiscoveryServiceClient(conn).FetchClientStatus(ctx, req)
	return out.GetConfig(), err
}

// item returns what is told of one resource of a client.
func item(t *testing.T, clients []*statusv3.ClientConfig, id, url, name string) *statusv3.ClientConfig_GenericXdsConfig {
	t.Helper()
	for _, c := range clients {
		for _, g := range c.GetGenericXdsConfigs() {
			if c.GetNode().GetId() == id && g.GetTypeUrl() == url && g.GetName() == name {
				return g
			}
		}
	}
	t.Fatalf("nothing is told of %s %s of %s: %v", url, name, id, clients)
	return nil
}

// followed starts a client that follows, until the test ends.
func (c *control) followed(id, service string, sotw bool, upstreams ...string) *follower {
	c.t.Helper()
	var list []bootstrap.Upstream
	for i, u := range upstreams {
		list = append(list, bootstrap.Upstream{Service: u, BindPort: 9000 + i})
	}
	f := newFollower(declaring(c.t, id, service, list...), sotw)
	ctx, cancel := context.WithCancel(c.t.Context())
	conn, ended := c.dial(), make(chan struct{})
	go func() { _ = f.follow(ctx, conn); close(ended) }()
	c.t.Cleanup(func() { cancel(); <-ended })
	c.proxy(id, xds.StateSynced)
	return f
}

func TestClientsAreToldOf(t *testing.T) {
	forms(t, func(t *testing.T, sotw bool) {
		c := startControl(t, everyone)
		c.load("web", "api")
		c.entries("service-defaults", httpDefaults("api"))
		c.instances("api", numbered("api", 1))
		f := c.followed("web-1", "web", sotw, "api")
		conn := c.dial()
		var got []*statusv3.ClientConfig
		testenv.Eventually(t, 5*time.Second, func() (err error) {
			if got, err = ask(t.Context(), conn, &statusv3.ClientStatusRequest{}); err != nil {
				return err
			}
			for _, g := range got[0].GetGenericXdsConfigs() {
				if g.GetConfigStatus() != statusv3.ConfigStatus_SYNCED {
					return fmt.Errorf("not synced: %v", g)
				}
			}
			return nil
		})
		if len(got) != 1 || got[0].GetNode().GetCluster() != "web" {
			t.Fatalf("told of %v", got)
		}
		told := 0
		for url, held := range f.held {
			for name, body := range held {
				told++
				g := item(t, got, "web-1", url, name)
				if !bytes.Equal(g.GetXdsConfig().GetValue(), body) || g.GetXdsConfig().GetTypeUrl() != url || g.GetVersionInfo() != versionOf(body) {
					t.Errorf("of %s %s the client has other bytes than are told", url, name)
				}
				if at := g.GetLastUpdated().AsTime(); time.Since(at) > time.Minute || time.Since(at) < 0 {
					t.Errorf("%s %s is of %s", url, name, at)
				}
				if g.GetClientStatus() != adminv3.ClientResourceStatus_ACKED || g.GetErrorState() != nil {
					t.Errorf("%s %s: %v", url, name, g)
				}
			}
		}
		if told != 4 || len(got[0].GetGenericXdsConfigs()) != told {
			t.Errorf("told of %d resources, and the client has %d", len(got[0].GetGenericXdsConfigs()), told)
		}
		bare, err := ask(t.Context(), conn, &statusv3.ClientStatusRequest{ExcludeResourceContents: true})
		if err != nil || item(t, bare, "web-1", session.ClusterURL, clusterOf("api")).GetXdsConfig() != nil {
			t.Errorf("without contents: %v, %v", bare, err)
		}
	})
}

func TestARefusalIsToldWithItsReason(t *testing.T) {
	c := startControl(t, everyone)
	c.load("web", "api")
	c.instances("api", numbered("api", 1))
	w, err := openWire(t.Context(), c.dial(), false)
	if err != nil {
		t.Fatal(err)
	}
	say := func(m message) told {
		t.Helper()
		m.url = session.ClusterURL
		if err := w.send(m); err != nil {
			t.Fatal(err)
		}
		if m.nonce != "" {
			return told{}
		}
		r, err := w.recv()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := say(message{node: declaring(t, "web-1", "web", bootstrap.Upstream{Service: "api", BindPort: 9000}), add: []string{"*"}})
	conn := c.dial()
	one := func() *statusv3.ClientConfig_GenericXdsConfig {
		t.Helper()
		got, err := ask(t.Context(), conn, &statusv3.ClientStatusRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return item(t, got, "web-1", session.ClusterURL, clusterOf("api"))
	}
	if g := one(); g.GetConfigStatus() != statusv3.ConfigStatus_STALE || g.GetClientStatus() != adminv3.ClientResourceStatus_REQUESTED || g.GetXdsConfig() == nil {
		t.Errorf("unanswered: %v", g)
	}
	say(message{nonce: r.nonce})
	testenv.Eventually(t, 5*time.Second, func() error {
		if g := one(); g.GetConfigStatus() != statusv3.ConfigStatus_SYNCED {
			return fmt.Errorf("accepted: %v", g)
		}
		return nil
	})
	accepted := one()
	c.entries("service-defaults", httpDefaults("api"), withLimit("web", 7))
	if r, err = w.recv(); err != nil {
		t.Fatal(err)
	}
	say(message{nonce: r.nonce, refuse: "cluster is not to my liking"})
	testenv.Eventually(t, 5*time.Second, func() error {
		g := one()
		e := g.GetErrorState()
		if g.GetConfigStatus() != statusv3.ConfigStatus_ERROR || g.GetClientStatus() != adminv3.ClientResourceStatus_NACKED ||
			e.GetDetails() != "cluster is not to my liking" || e.GetLastUpdateAttempt() == nil {
			return fmt.Errorf("refused: %v", g)
		}
		if g.GetVersionInfo() != accepted.GetVersionInfo() || !proto.Equal(g.GetXdsConfig(), accepted.GetXdsConfig()) {
			return fmt.Errorf("what was accepted does not stay: %v", g)
		}
		if e.GetVersionInfo() == accepted.GetVersionInfo() || versionOf(e.GetFailedConfiguration().GetValue()) != e.GetVersionInfo() {
			return fmt.Errorf("what was refused: %v", e)
		}
		return nil
	})
}

func TestClientsAreChosenByTheirIDs(t *testing.T) {
	c := startControl(t, everyone)
	c.load("web", "api")
	c.instances("api", numbered("api", 1))
	for _, id := range []string{"web-1", "web-2", "Shop-1"} {
		c.followed(id, "web", false, "api")
	}
	id := func(m *matcherv3.StringMatcher) *matcherv3.NodeMatcher { return &matcherv3.NodeMatcher{NodeId: m} }
	exact := func(s string) *matcherv3.NodeMatcher {
		return id(&matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: s}})
	}
	regex := func(s string) *matcherv3.NodeMatcher {
		return id(&matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: s}}})
	}
	conn := c.dial()
	st, err := statusv3.NewClientStatusDiscoveryServiceClient(conn).StreamClientStatus(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		by   []*matcherv3.NodeMatcher
		want string
	}{
		"all":         {nil, "Shop-1 web-1 web-2"},
		"exact":       {[]*matcherv3.NodeMatcher{exact("web-1")}, "web-1"},
		"one of them": {[]*matcherv3.NodeMatcher{exact("web-1"), exact("Shop-1")}, "Shop-1 web-1"},
		"prefix": {[]*matcherv3.NodeMatcher{id(&matcherv3.StringMatcher{
			IgnoreCase: true, MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: "SHOP"},
		})}, "Shop-1"},
		"suffix":   {[]*matcherv3.NodeMatcher{id(&matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Suffix{Suffix: "-2"}})}, "web-2"},
		"contains": {[]*matcherv3.NodeMatcher{id(&matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Contains{Contains: "eb-"}})}, "web-1 web-2"},
		"regex":    {[]*matcherv3.NodeMatcher{regex("web-.")}, "web-1 web-2"},
		"part":     {[]*matcherv3.NodeMatcher{regex("web")}, ""},
		"unset":    {[]*matcherv3.NodeMatcher{{}}, "Shop-1 web-1 web-2"},
	} {
		if err := st.Send(&statusv3.ClientStatusRequest{NodeMatchers: tt.by, ExcludeResourceContents: true}); err != nil {
			t.Fatal(err)
		}
		out, err := st.Recv()
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, c := range out.GetConfig() {
			ids = append(ids, c.GetNode().GetId())
		}
		if got := strings.Join(ids, " "); got != tt.want {
			t.Errorf("%s: told of %q, want %q", name, got, tt.want)
		}
	}
	for name, by := range map[string][]*matcherv3.NodeMatcher{
		"metadata": {{NodeMetadatas: []*matcherv3.StructMatcher{{}}}},
		"[":        {regex("[")},
		"bytes":    {exact(strings.Repeat("x", 2000))},
		"matchers": slices.Repeat([]*matcherv3.NodeMatcher{exact("x")}, 200),
	} {
		_, err := ask(t.Context(), conn, &statusv3.ClientStatusRequest{NodeMatchers: by})
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhoAsksSeesWhatItMay(t *testing.T) {
	guarded := xds.NewGuard(xds.GuardConfig{Tokens: runVerdicts(t, webRules()), Datacenter: "dc1", TrustDomain: "td.consul"})
	c := startControl(t, func(cfg *xds.Config) {
		cfg.Guard, cfg.Questions = guarded, xds.Questions{Operator: operator("root")}
	})
	c.load("web", "api")
	c.instances("api", numbered("api", 1))
	for _, id := range []string{"web-1", "web-2"} {
		f := newFollower(declaring(t, id, "web", bootstrap.Upstream{Service: "api", BindPort: 9000}), false)
		ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(t.Context(), "x-consul-token", webToken))
		conn, ended := c.dial(), make(chan struct{})
		go func() { _ = f.follow(ctx, conn); close(ended) }()
		t.Cleanup(func() { cancel(); <-ended })
	}
	testenv.Eventually(t, 5*time.Second, func() error {
		if n := len(c.server.Proxies()); n != 2 {
			return fmt.Errorf("%d clients", n)
		}
		return nil
	})
	conn := c.dial()
	for name, tt := range map[string]struct {
		header, value string
		node          *corev3.Node
		want          string
		code          codes.Code
	}{
		"nobody":                {"", "", nil, "", codes.Unauthenticated},
		"the operator":          {"authorization", "Bearer root", nil, "web-1 web-2", codes.OK},
		"in small letters":      {"authorization", "bearer root", nil, "web-1 web-2", codes.OK},
		"another operator":      {"authorization", "Bearer other", nil, "", codes.Unauthenticated},
		"no bearer":             {"authorization", "Basic root", nil, "", codes.Unauthenticated},
		"a client's token only": {"x-consul-token", webToken, nil, "", codes.Unauthenticated},
		"a client of itself":    {"x-consul-token", webToken, &corev3.Node{Id: "web-1", Cluster: "web"}, "web-1", codes.OK},
		"of another service":    {"x-consul-token", webToken, &corev3.Node{Id: "web-1", Cluster: "api"}, "", codes.PermissionDenied},
		"of no service":         {"x-consul-token", webToken, &corev3.Node{Id: "web-1"}, "", codes.OK},
		"without its token":     {"", "", &corev3.Node{Id: "web-1", Cluster: "web"}, "", codes.Unauthenticated},
		"as operator by x":      {"x-consul-token", "root", &corev3.Node{Id: "web-1", Cluster: "web"}, "", codes.Unauthenticated},
	} {
		ctx := t.Context()
		if tt.header != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, tt.header, tt.value)
		}
		got, err := ask(ctx, conn, &statusv3.ClientStatusRequest{Node: tt.node})
		var ids []string
		for _, c := range got {
			ids = append(ids, c.GetNode().GetId())
		}
		if strings.Join(ids, " ") != tt.want || status.Code(err) != tt.code {
			t.Errorf("%s: told of %v, %v; want %q, %s", name, ids, err, tt.want, tt.code)
		}
		if err != nil && (strings.Contains(err.Error(), "root") || strings.Contains(err.Error(), webToken)) {
			t.Errorf("%s: a token is told: %v", name, err)
		}
	}
}

func TestAnOperatorsTokenThatCannotBeReadAdmitsNobody(t *testing.T) {
	c := startControl(t, func(cfg *xds.Config) { cfg.Questions.Operator = operator("") })
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer ")
	if _, err := ask(ctx, c.dial(), &statusv3.ClientStatusRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("the answer is %v", err)
	}
	without := startControl(t, nil)
	if _, err := ask(ctx, without.dial(), &statusv3.ClientStatusRequest{}); status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), "--admin-token-file") {
		t.Errorf("without an operator the answer is %v", err)
	}
}

func TestACertificateOfNoServiceSeesAllClients(t *testing.T) {
	ca := newAuthority(t)
	server := xds.NewServer(xds.Config{
		Store: facts.New(), Logger: hclog.NewNullLogger(), Metrics: metrics.New("test"), Datacenter: "dc1", TrustDomain: "td.consul",
		Guard:     xds.NewGuard(xds.GuardConfig{Certificates: true, Datacenter: "dc1", TrustDomain: "td.consul"}),
		Questions: xds.Questions{Certificates: true},
	})
	g := grpc.NewServer(append(xds.ServerOptions(), grpc.Creds(credentials.NewTLS(ca.server())))...)
	server.Register(g)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = g.Serve(lis); close(ended) }()
	t.Cleanup(func() { g.Stop(); <-ended })
	const base = "spiffe://td.consul/ns/default/dc/dc1/svc/"
	for name, tt := range map[string]struct {
		show []tls.Certificate
		node *corev3.Node
		code codes.Code
	}{
		"none":              {nil, nil, codes.Unauthenticated},
		"of no service":     {[]tls.Certificate{ca.issue()}, nil, codes.OK},
		"of a service":      {[]tls.Certificate{ca.issue(base + "web")}, nil, codes.Unauthenticated},
		"of its own":        {[]tls.Certificate{ca.issue(base + "web")}, &corev3.Node{Id: "web-1", Cluster: "web"}, codes.OK},
		"of another":        {[]tls.Certificate{ca.issue(base + "api")}, &corev3.Node{Id: "web-1", Cluster: "web"}, codes.PermissionDenied},
		"none, with a node": {nil, &corev3.Node{Id: "web-1", Cluster: "web"}, codes.Unauthenticated},
	} {
		conn, err := grpc.NewClient(lis.Addr().String(), grpc.WithTransportCredentials(credentials.NewTLS(ca.client(tt.show...))))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ask(t.Context(), conn, &statusv3.ClientStatusRequest{Node: tt.node}); status.Code(err) != tt.code {
			t.Errorf("%s: %v, want %s", name, err, tt.code)
		}
		_ = conn.Close()
	}
}
