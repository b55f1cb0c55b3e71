package grpcserver

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// counts is what a server has counted.
type counts struct {
	mu                   sync.Mutex
	connections, streams int
	refused              map[string]int
	certificates, broken int
}

func (c *counts) GRPCConnections(delta int) { c.mu.Lock(); c.connections += delta; c.mu.Unlock() }
func (c *counts) GRPCStreams(delta int)     { c.mu.Lock(); c.streams += delta; c.mu.Unlock() }
func (c *counts) GRPCRefused(reason string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n == 0 {
		return
	}
	if c.refused == nil {
		c.refused = map[string]int{}
	}
	c.refused[reason] += n
}

func (c *counts) GRPCCertificate(_ time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.broken++
	} else {
		c.certificates++
	}
}

func (c *counts) refusals() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]int{}
	for reason, n := range c.refused {
		all[reason] = n
	}
	return all
}

// stands returns an error unless so many connections and streams are open.
func (c *counts) stands(connections, streams int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.connections != connections || c.streams != streams {
		return fmt.Errorf("%d connections and %d streams are open, want %d and %d", c.connections, c.streams, connections, streams)
	}
	return nil
}

// lines is a log that a test reads.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *lines) logger() hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Output: l, Level: hclog.Trace})
}

// newServer returns a server that serves echo, and is ready.
func newServer(t testing.TB, cfg Config) *Server {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	if cfg.Metrics == nil {
		cfg.Metrics = &counts{}
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.RegisterService(echo(), nil)
	s.SetReady(true)
	return s
}

const (
	echoService = "test.Echo"
	echoStream  = "/test.Echo/Stream"
	echoWait    = "/test.Echo/Wait"
	echoOnce    = "/test.Echo/Once"
)

// echo is a service that says again what it hears, on a stream, which does not mind its context, or once;
// or waits for the end of its context.
func echo() *grpc.ServiceDesc {
	return &grpc.ServiceDesc{ServiceName: echoService, HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
		MethodName: "Once",
		Handler: func(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
			m := &wrapperspb.BytesValue{}
			if err := decode(m); err != nil {
				return nil, err
			}
			return intercept(ctx, m, &grpc.UnaryServerInfo{FullMethod: echoOnce}, func(context.Context, any) (any, error) { return m, nil })
		},
	}}, Streams: []grpc.StreamDesc{{
		StreamName: "Wait", ServerStreams: true, ClientStreams: true,
		Handler: func(_ any, stream grpc.ServerStream) error {
			<-stream.Context().Done()
			return stream.Context().Err()
		},
	}, {
		StreamName: "Stream", ServerStreams: true, ClientStreams: true,
		Handler: func(_ any, stream grpc.ServerStream) error {
			for {
				m := &wrapperspb.BytesValue{}
				if err := stream.RecvMsg(m); err != nil {
					return err
				}
				if err := stream.SendMsg(m); err != nil {
					return err
				}
			}
		},
	}}}
}

// running is a server on a port of its own.
type running struct {
	*Server
	addr   string
	counts *counts
	log    *lines
}

// start runs a server until the test ends.
func start(t testing.TB, cfg Config) *running {
	t.Helper()
	r := &running{counts: &counts{}, log: &lines{}}
	cfg.Metrics, cfg.Logger = r.counts, r.log.logger()
	r.Server = newServer(t, cfg)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.addr = listener.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- r.Run(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("the server ended with %v", err)
		}
		if t.Failed() {
			t.Log(r.log)
		}
	})
	return r
}

// dial returns a connection to the server, in plaintext without credentials.
func (r *running) dial(t testing.TB, creds credentials.TransportCredentials, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	if creds == nil {
		creds = insecure.NewCredentials()
	}
	conn, err := grpc.NewClient("passthrough:///"+r.addr, append(opts, grpc.WithTransportCredentials(creds))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// open opens a stream to echo, which lives as long as the test.
func open(t testing.TB, conn *grpc.ClientConn) grpc.ClientStream {
	t.Helper()
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, echoStream)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// say sends so many bytes, and returns why they do not come back.
func say(stream grpc.ClientStream, size int) error {
	m := wrapperspb.Bytes(make([]byte, size))
	if err := stream.SendMsg(m); err != nil {
		return stream.RecvMsg(m) // which says why
	}
	return stream.RecvMsg(m)
}

// once calls echo for one answer.
func once(ctx context.Context, conn *grpc.ClientConn) error {
	m := wrapperspb.Bytes([]byte("x"))
	return conn.Invoke(ctx, echoOnce, m, m)
}
