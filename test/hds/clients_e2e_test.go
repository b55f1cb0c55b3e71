//go:build e2e

package hds_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// TestClientsOfEveryKindFollowAVerdict has an instance that answers, and is probed where nobody does: only its verdict
// can be why an Envoy, an application with gRPC and a proxy of Linkerd's leave it alone.
func TestClientsOfEveryKindFollowAVerdict(t *testing.T) {
	t.Parallel()
	f := startFleet(t, "--hds-report-interval", "100ms")
	well, ill := testenv.StartGRPCBackend(t, "well", nil), testenv.StartGRPCBackend(t, "ill", nil)
	probedAt := func(port int) {
		f.write("api.hcl", instance("api", "well", well.Port, probe("2s", "hds-protocol", "tcp")...)+
			instance("api", "ill", ill.Port, probe("2s", "hds-protocol", "tcp", "hds-port", fmt.Sprint(port))...))
	}
	f.write("defaults.hcl", "Kind = \"service-defaults\"\nName = \"api\"\nProtocol = \"grpc\"\n")
	probedAt(testenv.FreePort(t))
	f.checker("checker-1")
	envoy := f.follower("api")
	r := testenv.Run(t, nil, "bootstrap", "grpc", "--service", "web", "--grpc-addr", f.catenary.GRPCAddr)
	if r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	app := testenv.DialXDS(t, []byte(r.Stdout), "api")

	sees(t, envoy, ill.Port, "UNHEALTHY")
	f.answers(app, "well")
	f.linkerd(well.Port)

	probedAt(ill.Port)
	sees(t, envoy, ill.Port, "HEALTHY")
	f.answers(app, "well", "ill")
	f.linkerd(well.Port, ill.Port)
}

// answers waits until these and no others answer an application.
func (f *fleet) answers(app *testenv.GRPCClient, who ...string) {
	f.t.Helper()
	testenv.Eventually(f.t, patience, func() error {
		ctx, cancel := context.WithTimeout(f.t.Context(), 10*time.Second)
		defer cancel()
		got := app.Tally(ctx, 40)
		for _, w := range who {
			if got[w] == 0 {
				return fmt.Errorf("%v answer, want %v", got, who)
			}
		}
		if len(got) != len(who) {
			return fmt.Errorf("%v answer, want %v", got, who)
		}
		return nil
	})
}

// linkerd waits until a proxy of Linkerd's is told of these ports and no others.
func (f *fleet) linkerd(ports ...int) {
	f.t.Helper()
	testenv.Eventually(f.t, patience, func() error {
		r := testenv.Run(f.t, nil, "destination", "get", "api.service.consul", "--once", "--grpc-addr", f.catenary.GRPCAddr)
		found := 0
		for _, p := range ports {
			found += strings.Count(r.Stdout, fmt.Sprintf("127.0.0.1:%d ", p))
		}
		if found != len(ports) || strings.Count(r.Stdout, "127.0.0.1:") != len(ports) {
			return fmt.Errorf("want %v: exit %d\n%s%s", ports, r.Code, r.Stdout, r.Stderr)
		}
		return nil
	})
}
