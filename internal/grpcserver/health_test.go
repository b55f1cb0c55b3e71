package grpcserver

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// healthIs returns an error unless a service has that health.
func healthIs(ctx context.Context, conn *grpc.ClientConn, service string, want healthpb.HealthCheckResponse_ServingStatus) error {
	r, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: service})
	if err != nil || r.GetStatus() != want {
		return fmt.Errorf("the health of %q is %v (%w), want %v", service, r.GetStatus(), err, want)
	}
	return nil
}

func TestHealthFollowsReadiness(t *testing.T) {
	s := start(t, Config{})
	conn := s.dial(t, nil)
	for _, ready := range []bool{true, false, true} {
		s.SetReady(ready)
		want := healthpb.HealthCheckResponse_NOT_SERVING
		if ready {
			want = healthpb.HealthCheckResponse_SERVING
		}
		for _, service := range []string{"", echoService} {
			if err := healthIs(t.Context(), conn, service, want); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: "x"}); status.Code(err) != codes.NotFound {
		t.Errorf("the health of an unknown service: %v", err)
	}
}

func TestNothingIsHealthyBeforeItIsReady(t *testing.T) {
	s, err := New(Config{Logger: (&lines{}).logger(), Metrics: &counts{}})
	if err != nil {
		t.Fatal(err)
	}
	s.RegisterService(echo(), nil)
	for _, service := range []string{"", echoService} {
		r, err := s.health.Check(t.Context(), &healthpb.HealthCheckRequest{Service: service})
		if err != nil || r.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
			t.Errorf("the health of %q is %v (%v)", service, r.GetStatus(), err)
		}
	}
	s.Stop(func() {})
}

func TestAnEndIsToldToWatchersBeforeStreamsEnd(t *testing.T) {
	s := start(t, Config{})
	conn := s.dial(t, nil)
	watch, err := healthpb.NewHealthClient(conn).Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	next := func(want healthpb.HealthCheckResponse_ServingStatus) {
		t.Helper()
		if r, err := watch.Recv(); err != nil || r.GetStatus() != want {
			t.Fatalf("heard %v (%v), want %v", r.GetStatus(), err, want)
		}
	}
	next(healthpb.HealthCheckResponse_SERVING)
	asking, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stream := open(t, conn)
	if err := say(stream, 1); err != nil {
		t.Fatal(err)
	}
	s.Stop(func() {
		next(healthpb.HealthCheckResponse_NOT_SERVING)
		if err := say(stream, 1); err != nil {
			t.Errorf("a stream ended before the watchers heard: %v", err)
		}
		if err := stream.CloseSend(); err != nil {
			t.Error(err)
		}
	})
	if _, err := watch.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("watching ends with %v", err)
	}
	if _, err := asking.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("reflection ends with %v", err)
	}
	s.SetReady(false)
	s.SetReady(true)
	if r, err := s.health.Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil || r.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("the health of a server that has ended is %v (%v)", r.GetStatus(), err)
	}
}

func TestStreamsThatDoNotEndAreCutOff(t *testing.T) {
	b := defaultBounds()
	b.drain = b.lastWord
	s := start(t, Config{bounds: &b})
	stream := open(t, s.dial(t, nil))
	if err := say(stream, 1); err != nil {
		t.Fatal(err)
	}
	s.Stop(func() {})
	if err := say(stream, 1); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream ends with %v", err)
	}
	testenv.Eventually(t, patient, func() error { return s.counts.stands(0, 0) })
}

func TestConnectionsThatHaveNotBegunDoNotHoldUpTheEnd(t *testing.T) {
	b := defaultBounds()
	b.handshake, b.drain = time.Hour, time.Hour
	for name, files := range map[string]Files{"plaintext": {}, "TLS": filesOf(testenv.NewAuthority(t))} {
		t.Run(name, func(t *testing.T) {
			s := start(t, Config{TLS: files, bounds: &b})
			conn, err := net.Dial("tcp", s.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			testenv.Eventually(t, patient, func() error { return s.counts.stands(1, 0) })
			s.Stop(func() {})
			if err := s.counts.stands(0, 0); err != nil {
				t.Error(err)
			}
			if got := s.counts.refusals(); len(got) != 0 {
				t.Errorf("refused %v", got)
			}
		})
	}
}

// passing is a codec of one service's messages, through which all others pass.
type passing struct{ encoding.CodecV2 }

func (p passing) Marshal(v any) (mem.BufferSlice, error) { return p.CodecV2.Marshal(v) }

func TestHealthAndReflectionPassACodec(t *testing.T) {
	codec := passing{encoding.GetCodecV2(proto.Name)}
	for name, options := range map[string][]grpc.ServerOption{
		"none": nil, "forced": {grpc.ForceServerCodecV2(codec)},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, Config{Options: options})
			conn := s.dial(t, nil)
			if err := healthIs(t.Context(), conn, echoService, healthpb.HealthCheckResponse_SERVING); err != nil {
				t.Error(err)
			}
			for version, list := range map[string]func(*grpc.ClientConn) (string, error){"v1": listed, "v1alpha": listedOld} {
				if got, err := list(conn); err != nil || !strings.Contains(got, echoService) || !strings.Contains(got, "grpc.health.v1.Health") {
					t.Errorf("reflection %s lists %s (%v)", version, got, err)
				}
			}
		})
	}
}

// listed returns the services that reflection lists.
func listed(conn *grpc.ClientConn) (string, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		return "", err
	}
	if err := stream.Send(&reflectionpb.ServerReflectionRequest{
		MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{},
	}); err != nil {
		return "", err
	}
	r, err := stream.Recv()
	return r.String(), err
}

// listedOld is for clients that know the first version of reflection only; its messages are the same.
func listedOld(conn *grpc.ClientConn) (string, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true},
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
	if err != nil {
		return "", err
	}
	if err := stream.SendMsg(&reflectionpb.ServerReflectionRequest{
		MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{},
	}); err != nil {
		return "", err
	}
	r := &reflectionpb.ServerReflectionResponse{}
	err = stream.RecvMsg(r)
	return r.String(), err
}
