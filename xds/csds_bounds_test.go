package xds_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/identity"
	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
)

// asking opens a stream of questions that was answered once.
func asking(t *testing.T, conn *grpc.ClientConn, node *corev3.Node, headers ...string) statusv3.ClientStatusDiscoveryService_StreamClientStatusClient {
	t.Helper()
	ctx := metadata.AppendToOutgoingContext(t.Context(), headers...)
	st, err := statusv3.NewClientStatusDiscoveryServiceClient(conn).StreamClientStatus(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Send(&statusv3.ClientStatusRequest{Node: node}); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Recv(); err != nil {
		t.Fatal(err)
	}
	return st
}

func TestNotTooManyAskAtOnce(t *testing.T) {
	c := startControl(t, everyone)
	conn := c.dial()
	var streams []statusv3.ClientStatusDiscoveryService_StreamClientStatusClient
	for range 16 {
		streams = append(streams, asking(t, conn, nil))
	}
	if _, err := ask(t.Context(), conn, &statusv3.ClientStatusRequest{}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one more: %v", err)
	}
	if err := streams[0].CloseSend(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, 5*time.Second, func() error {
		_, err := ask(t.Context(), conn, &statusv3.ClientStatusRequest{})
		return err
	})
	c.drain()
	if _, err := streams[1].Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("when the server ends: %v", err)
	}
}

func TestAnAnswerIsBounded(t *testing.T) {
	c := startControl(t, everyone)
	c.load("web", "api")
	var many []*facts.Instance
	for i := range 40_000 {
		many = append(many, &facts.Instance{
			Node:    facts.Node{Node: fmt.Sprint("n", i), Address: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), Datacenter: "dc1"},
			Service: facts.Service{ID: fmt.Sprint("api-", i), Service: "api", Port: 8080},
		})
	}
	c.instances("api", many...)
	for i := range 16 {
		c.followed(fmt.Sprintf("web-%d", i), "web", false, "api")
	}
	conn := c.dial(grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64 << 20)))
	_, err := ask(t.Context(), conn, &statusv3.ClientStatusRequest{})
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "node_matchers") {
		t.Errorf("all: %v", err)
	}
	if got, err := ask(t.Context(), conn, &statusv3.ClientStatusRequest{ExcludeResourceContents: true}); err != nil || len(got) != 16 {
		t.Errorf("without contents: %d clients, %v", len(got), err)
	}
}

func TestWhoLosesTheRightIsToldNoMore(t *testing.T) {
	r := webRules()
	guarded := xds.NewGuard(xds.GuardConfig{Tokens: runVerdicts(t, r), Datacenter: "dc1", TrustDomain: "td.consul"})
	c := startControl(t, func(cfg *xds.Config) { cfg.Guard = guarded })
	conn, web := c.dial(), &corev3.Node{Id: "web-1", Cluster: "web"}
	st := asking(t, conn, web, "x-consul-token", webToken)
	r.mu.Lock()
	r.table[webToken] = map[identity.Question]bool{}
	r.mu.Unlock()
	if _, err := st.Recv(); status.Code(err) != codes.PermissionDenied || strings.Contains(err.Error(), webToken) {
		t.Errorf("after the right is lost: %v", err)
	}
}

func TestWhoAsksNothingIsNotKept(t *testing.T) {
	c := startControl(t, func(cfg *xds.Config) {
		everyone(cfg)
		cfg.FirstRequestWithin, cfg.AnswerWithin = 200*time.Millisecond, 400*time.Millisecond
	})
	conn := c.dial()
	mute, err := statusv3.NewClientStatusDiscoveryServiceClient(conn).StreamClientStatus(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range []statusv3.ClientStatusDiscoveryService_StreamClientStatusClient{mute, asking(t, conn, nil)} {
		if _, err := st.Recv(); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("it ends with %v", err)
		}
	}
}
