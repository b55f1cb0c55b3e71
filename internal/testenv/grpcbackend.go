package testenv

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	grpcxds "google.golang.org/grpc/xds"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// GRPCBackend is a gRPC server on 127.0.0.1 that answers every method with its version.
type GRPCBackend struct {
	// Version is what it answers.
	Version string
	// Port is where it listens.
	Port int
	// Behave is asked before each answer; an error is answered instead. It may be nil.
	Behave func(ctx context.Context, method string) error

	count atomic.Int64
	stop  func()
}

// Count returns how many calls it has got.
func (b *GRPCBackend) Count() int { return int(b.count.Load()) }

// Stop ends the backend before the test does.
func (b *GRPCBackend) Stop() { b.stop() }

// StartGRPCBackend starts a gRPC server. behave is as in [GRPCBackend].
func StartGRPCBackend(t testing.TB, version string, behave func(context.Context, string) error, opts ...grpc.ServerOption) *GRPCBackend {
	t.Helper()
	lis := listen(t)
	b := &GRPCBackend{Version: version, Port: lis.Addr().(*net.TCPAddr).Port, Behave: behave}
	server := grpc.NewServer(append(opts, grpc.UnknownServiceHandler(b.answer))...)
	done := make(chan error, 1)
	go func() { done <- server.Serve(lis) }()
	b.stop = sync.OnceFunc(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Errorf("testenv: gRPC backend %s: %v", version, err)
		}
	})
	t.Cleanup(b.stop)
	return b
}

func (b *GRPCBackend) answer(_ any, stream grpc.ServerStream) error {
	b.count.Add(1)
	if err := stream.RecvMsg(&emptypb.Empty{}); err != nil {
		return err
	}
	method, _ := grpc.MethodFromServerStream(stream)
	if b.Behave != nil {
		if err := b.Behave(stream.Context(), method); err != nil {
			return err
		}
	}
	return stream.SendMsg(wrapperspb.String(b.Version))
}

// GRPCBootstrap is a bootstrap as a gRPC client of a control plane has it, without TLS. extra has further fields of
// its top level.
func GRPCBootstrap(t testing.TB, addr string, node, extra map[string]any) []byte {
	t.Helper()
	all := map[string]any{
		"xds_servers": []any{map[string]any{
			"server_uri": addr, "channel_creds": []any{map[string]any{"type": "insecure"}}, "server_features": []any{"xds_v3"},
		}},
		"node": node,
	}
	for k, v := range extra {
		all[k] = v
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// GRPCClient is a real gRPC client that finds its backends over xDS.
type GRPCClient struct{ *grpc.ClientConn }

// DialXDS dials a name such as "api" with a bootstrap. It ends with the test.
func DialXDS(t testing.TB, bootstrap []byte, name string, opts ...grpc.DialOption) *GRPCClient {
	t.Helper()
	builder, err := grpcxds.NewXDSResolverWithConfigForTesting(bootstrap)
	if err != nil {
		t.Fatal(err)
	}
	opts = append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithResolvers(builder)}, opts...)
	conn, err := grpc.NewClient("xds:///"+name, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &GRPCClient{conn}
}

// Call calls a method and returns the version that answers. headers are name and value in turn.
func (c *GRPCClient) Call(ctx context.Context, method string, headers ...string) (string, error) {
	var out wrapperspb.StringValue
	err := c.Invoke(metadata.AppendToOutgoingContext(ctx, headers...), method, &emptypb.Empty{}, &out)
	return out.GetValue(), err
}

// Tally calls a method n times and counts the versions that answer; failures count by their code.
func (c *GRPCClient) Tally(ctx context.Context, n int, headers ...string) map[string]int {
	got := map[string]int{}
	for range n {
		who, err := c.Call(ctx, "/shop.Shop/Get", headers...)
		if err != nil {
			who = fmt.Sprint(status.Code(err))
		}
		got[who]++
	}
	return got
}
