package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

const (
	grpcPatience = 20 * time.Second
	ads          = "envoy.service.discovery.v3.AggregatedDiscoveryService"
)

// TestThePortIsThatOfAnyGRPCServer has health and reflection pass the codec of the discovery services,
// over TLS, until the program ends.
func TestThePortIsThatOfAnyGRPCServer(t *testing.T) {
	ca := testenv.NewAuthority(t)
	cert, key := ca.Issue("server")
	c := testenv.StartCatenary(t, nil, "--from", filepath.Join(root(t), "examples", "shop"),
		"--grpc-tls-cert", cert, "--grpc-tls-key", key, "--grpc-max-connection-age", "1h")
	conn := dialTLS(t, c.GRPCAddr, ca.CAFile)

	watch, err := healthpb.NewHealthClient(conn).Watch(t.Context(), &healthpb.HealthCheckRequest{Service: ads}, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	for state := healthpb.HealthCheckResponse_UNKNOWN; state != healthpb.HealthCheckResponse_SERVING; {
		r, err := watch.Recv()
		if err != nil {
			t.Fatal(err)
		}
		state = r.GetStatus()
	}
	asking, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := asking.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{
		FileContainingSymbol: ads,
	}}); err != nil {
		t.Fatal(err)
	}
	if r, err := asking.Recv(); err != nil || len(r.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
		t.Errorf("reflection describes %s as %v (%v)", ads, r, err)
	}
	testenv.Eventually(t, grpcPatience, func() error {
		if n := c.Metrics()["catenary_grpc_connections"]; n != 1 {
			return fmt.Errorf("%v connections are counted, want 1", n)
		}
		return nil
	})

	c.Stop()
	if r, err := watch.Recv(); err != nil || r.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("at the end the health is %v (%v)", r.GetStatus(), err)
	}
	if _, err := watch.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("watching ends with %v", err)
	}
	if log := c.Log(); strings.Contains(log, "[ERROR]") {
		t.Errorf("the log:\n%s", log)
	}
}

func dialTLS(t *testing.T, addr, ca string) *grpc.ClientConn {
	t.Helper()
	raw, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(raw)
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}
