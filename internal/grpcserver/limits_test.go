package grpcserver

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// exhausted fails the test unless the error says that a limit is reached, and the server counted it.
func exhausted(t *testing.T, s *running, err error, reason, text string) {
	t.Helper()
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want ResourceExhausted: %s", err, text)
	}
	testenv.Eventually(t, patient, func() error {
		if s.counts.refusals()[reason] == 0 {
			return fmt.Errorf("refused %v, want %s", s.counts.refusals(), reason)
		}
		return nil
	})
}

// fill opens streams that work, and returns why the next does not.
func fill(t *testing.T, conn *grpc.ClientConn, n int) error {
	t.Helper()
	for i := range n {
		if err := say(open(t, conn), 1); err != nil {
			t.Fatalf("stream %d: %v", i+1, err)
		}
	}
	return say(open(t, conn), 1)
}

func TestStreamsOfAConnectionAreLimited(t *testing.T) {
	s := start(t, Config{})
	exhausted(t, s, fill(t, s.dial(t, nil), maxConnectionStreams), ReasonConnectionStreams,
		"the limit of 1000 streams on one connection is reached: open another connection")
	if err := say(open(t, s.dial(t, nil)), 1); err != nil {
		t.Errorf("another connection: %v", err)
	}
}

func TestStreamsInAllAreLimited(t *testing.T) {
	s := start(t, Config{MaxStreams: 3})
	ctx, leave := context.WithCancel(t.Context())
	leaving, err := s.dial(t, nil).NewStream(ctx, &echo().Streams[0], echoStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := say(leaving, 1); err != nil {
		t.Fatal(err)
	}
	conn := s.dial(t, nil)
	exhausted(t, s, fill(t, conn, 2), ReasonStreams,
		"the limit of 3 streams on this server is reached: connect to another replica, or raise --max-streams")
	if err := s.counts.stands(2, 3); err != nil {
		t.Error(err)
	}
	// Whoever looks after the server must not take it for dead.
	if err := healthIs(t.Context(), conn, "", healthpb.HealthCheckResponse_SERVING); err != nil {
		t.Error(err)
	}
	if _, err := listed(conn); err != nil {
		t.Error(err)
	}
	exhausted(t, s, once(t.Context(), conn), ReasonStreams, "the limit of 3 streams")
	leave()
	testenv.Eventually(t, patient, func() error { return once(t.Context(), conn) })
	testenv.Eventually(t, patient, func() error { return say(open(t, conn), 1) })
}

func TestStreamsOfHealthDoNotTakeThePlaceOfClients(t *testing.T) {
	s := start(t, Config{MaxStreams: 1})
	conn := s.dial(t, nil)
	watch := func() error {
		stream, err := healthpb.NewHealthClient(conn).Watch(t.Context(), &healthpb.HealthCheckRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	}
	for range maxSideStreams {
		if err := watch(); err != nil {
			t.Fatal(err)
		}
	}
	exhausted(t, s, watch(), ReasonSideStreams, "the limit of 100 streams of health and reflection is reached")
	if err := say(open(t, conn), 1); err != nil {
		t.Errorf("a client is not served: %v", err)
	}
}

func TestConnectionsAreLimited(t *testing.T) {
	s := start(t, Config{MaxStreams: 1})
	for range connectionsPerStream {
		conn, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	testenv.Eventually(t, patient, func() error { return s.counts.stands(connectionsPerStream, 0) })
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.ReadAll(conn); err != nil {
		t.Error(err)
	}
	if n := s.counts.refusals()[ReasonConnections]; n != 1 {
		t.Errorf("%d connections are refused, want 1", n)
	}
}

func TestMessagesAreLimited(t *testing.T) {
	s := start(t, Config{})
	conn := s.dial(t, nil, grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(2*maxMessage)))
	if err := say(open(t, conn), maxMessage-64); err != nil {
		t.Errorf("a message just below the limit: %v", err)
	}
	exhausted(t, s, say(open(t, conn), maxMessage+1), ReasonMessage, "received message larger than max")
}

func TestHeadersAreLimited(t *testing.T) {
	s := start(t, Config{})
	conn := s.dial(t, nil)
	with := func(size int) error {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x-large", strings.Repeat("#", size))
		stream, err := conn.NewStream(ctx, &echo().Streams[0], echoStream)
		if err != nil {
			return err
		}
		return say(stream, 1)
	}
	if err := with(maxHeaders - 1024); err != nil {
		t.Errorf("headers just below the limit: %v", err)
	}
	exhausted(t, s, with(maxHeaders), ReasonHeaders, "more than the limit of 16384: send fewer or shorter ones")
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-large", strings.Repeat("#", maxHeaders))
	_, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
	exhausted(t, s, err, ReasonHeaders, "more than the limit")
}

func TestBoundsThatMakeNoSenseAreRefused(t *testing.T) {
	for want, cfg := range map[string]Config{
		"--grpc-max-connection-age 1ms is too short": {MaxConnectionAge: time.Millisecond},
		"--grpc-max-connection-age -1s":              {MaxConnectionAge: -time.Second},
		"--max-streams -1: give 1 or more":           {MaxStreams: -1},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
