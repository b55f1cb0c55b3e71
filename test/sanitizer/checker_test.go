package sanitizer

import (
	"net"
	"testing"

	"google.golang.org/grpc"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// raw is a message as bytes.
type raw []byte

// rawCodec passes bytes as they are.
type rawCodec struct{}

func (rawCodec) Marshal(v any) ([]byte, error) { return *v.(*raw), nil }

func (rawCodec) Unmarshal(data []byte, v any) error {
	*v.(*raw) = append(raw(nil), data...)
	return nil
}

func (rawCodec) Name() string { return "proto" }

// checker is a real Envoy that is told what to probe.
type checker struct {
	version testenv.EnvoyVersion
	envoy   *testenv.Envoy
	// heard are its messages, to specifiers the bytes to send.
	heard chan raw
	to    chan raw
}

// startChecker starts an Envoy and a server of health discovery for one stream that does what it is told.
func startChecker(t *testing.T, version testenv.EnvoyVersion) *checker {
	t.Helper()
	c := &checker{version: version, heard: make(chan raw, 1), to: make(chan raw)}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.ForceServerCodec(rawCodec{}))
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "envoy.service.health.v3.HealthDiscoveryService",
		HandlerType: (*any)(nil),
		Streams:     []grpc.StreamDesc{{StreamName: "StreamHealthCheck", ServerStreams: true, ClientStreams: true, Handler: c.stream}},
	}, c)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	c.envoy = testenv.StartEnvoy(t, testenv.CheckerBootstrap(listener.Addr().(*net.TCPAddr).Port), testenv.WithEnvoyVersion(version))
	return c
}

func (c *checker) stream(_ any, s grpc.ServerStream) error {
	failed := make(chan error, 1)
	go func() {
		for {
			var m raw
			if err := s.RecvMsg(&m); err != nil {
				failed <- err
				return
			}
			select {
			case c.heard <- m:
			case <-s.Context().Done():
				failed <- s.Context().Err()
				return
			}
		}
	}()
	for {
		select {
		case m := <-c.to:
			if err := s.SendMsg(&m); err != nil {
				return err
			}
		case err := <-failed:
			return err
		}
	}
}
