package server_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/hds/server"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/snapshot"
	"github.com/catenary-mesh/catenary/xds"
)

// moody admits those with a token while it likes.
type moody struct{ shut atomic.Bool }

// Admit implements [xds.Guard].
func (m *moody) Admit(ctx context.Context, c snapshot.Client) (*xds.Grant, error) {
	if md, _ := metadata.FromIncomingContext(ctx); m.shut.Load() || len(md.Get("x-consul-token")) == 0 {
		return nil, status.Error(codes.PermissionDenied, "not now")
	}
	return admitted{}.Admit(ctx, c)
}

func by(token string) context.Context {
	return metadata.AppendToOutgoingContext(context.Background(), "x-consul-token", token)
}

// Many share an address behind a NAT.
func TestAReportIsThatOfALeaseOnlyWithTheSameProof(t *testing.T) {
	guard := &moody{}
	r := newRig(t, func(c *server.Config) { c.Guard = guard; c.ReportInterval = 1000 * interval })
	r.service("api", tcp(), 8001)
	client := healthv3.NewHealthDiscoveryServiceClient(r.dial())
	spec, err := client.FetchHealthCheck(by("mine"), hello("f"))
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range []context.Context{context.Background(), by("another")} {
		if _, err := client.FetchHealthCheck(other, reportOn(spec, allDown)); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("a report by another is answered with %v", err)
		}
	}
	if n := r.server.Checkers()[0].Reports; n != 0 {
		t.Errorf("%d reports of others count", n)
	}
	if _, err := client.FetchHealthCheck(by("mine"), reportOn(spec, allDown)); err != nil {
		t.Error(err)
	}
	guard.shut.Store(true)
	if _, err := client.FetchHealthCheck(by("mine"), reportOn(spec, allDown)); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a report of one who is no longer admitted is answered with %v", err)
	}
}

func TestWhoFetchesAsAnotherEnvoyIsTakenForThat(t *testing.T) {
	r := newRig(t, func(c *server.Config) { c.ReportInterval = 20 * interval })
	client := healthv3.NewHealthDiscoveryServiceClient(r.dial())
	first := hello("f")
	second := hello("f")
	second.GetHealthCheckRequest().GetCapability().HealthCheckProtocols = nil
	second.GetHealthCheckRequest().GetNode().Locality = nil
	for _, zone := range []string{"", "b"} {
		m := first
		if zone != "" {
			m = second
		}
		testenv.Eventually(t, patience, func() error {
			if _, err := client.FetchHealthCheck(context.Background(), m); err != nil {
				return err
			}
			r.service("api", tcp(), 8001)
			list := r.server.Checkers()
			if len(list) != 1 {
				return fmt.Errorf("%+v", list)
			}
			if want := map[string]int{"": 1, "b": 0}[zone]; list[0].Duties != want {
				return fmt.Errorf("%d duties, want %d", list[0].Duties, want)
			}
			return nil
		})
	}
}

func TestACheckerThatWouldBeAnotherInMidStreamIsEnded(t *testing.T) {
	r := newRig(t, nil)
	r.service("api", tcp(), 8001)
	c := r.checkerBy(streamV3, "a", allUp)
	c.probes(8001)
	c.set(func() { c.mute = true })
	if err := c.stream.SendMsg(hello("b")); err != nil {
		t.Fatal(err)
	}
	if err := <-c.ended; status.Code(err) != codes.InvalidArgument {
		t.Errorf("it ended with %v", err)
	}
}

func TestTwoOfOneNodeIDHaveOneVote(t *testing.T) {
	r := newRig(t, nil)
	r.service("api", tcp(), 8001)
	r.checker("honest", allUp)
	r.checker("twin", allDown)
	r.checker("twin", allDown)
	testenv.Eventually(t, patience, func() error {
		if n := len(r.server.Checkers()); n != 3 {
			return fmt.Errorf("%d checkers", n)
		}
		return nil
	})
	r.verdicts("api", map[int]bool{8001: true})
	if v, _ := r.store.View().Verdicts(facts.Health("dc1", "api")); len(v) != 1 {
		t.Errorf("%v", v)
	}
}
