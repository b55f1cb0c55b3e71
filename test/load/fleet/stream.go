package fleet

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/catenary-mesh/catenary/test/load/h2"
)

const adsMethod = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"

const (
	// window is what a server may send ahead: enough that it never waits for one that reads.
	window = 16 << 20
	// slowWindow leaves a server that sends to one that does not read little room to put it.
	slowWindow = 64 << 10
	readBuffer = 16 << 10
)

// stream is an imitated Envoy and its connection.
type stream struct {
	envoy
	fleet      *fleet
	generation *generation
	index      int
	slow       bool
	failed     bool // the server or the network ended it

	mu   sync.Mutex
	conn net.Conn
	cut  bool

	// Times since the dial.
	began          time.Time
	connect, whole atomic.Int64

	// bodies are the endpoints last seen of each name, until the flips begin.
	bodiesMu sync.Mutex
	bodies   map[string][]byte
}

// run connects and reads until the stream is cut or fails.
func (s *stream) run(ctx context.Context, earlier *stream) error {
	s.began = time.Now()
	conn, err := s.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	call := h2.New(h2.Config{
		Authority: s.fleet.Address, Method: adsMethod, TLS: s.fleet.TLS,
		Window: s.window(), Header: s.fleet.header(),
	})
	s.send = call.Send
	if earlier == nil {
		s.begin(nil)
	} else {
		s.begin(&earlier.envoy)
	}
	buf := make([]byte, readBuffer)
	for {
		if out := call.Output(); len(out) > 0 {
			if _, err := conn.Write(out); err != nil {
				return s.ended(err)
			}
		}
		n, err := conn.Read(buf)
		if err != nil {
			return s.ended(err)
		}
		if s.slow {
			s.fleet.pauseReading(ctx)
		}
		if err := call.Receive(buf[:n], s.take); err != nil {
			return fmt.Errorf("%s: %w", s.node.ID, err)
		}
		if s.connect.Load() == 0 && call.Ready() {
			s.connect.Store(int64(time.Since(s.began)))
		}
	}
}

func (s *stream) window() int {
	if s.slow {
		return slowWindow
	}
	return window
}

func (s *stream) dial(ctx context.Context) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.fleet.Address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.node.ID, err)
	}
	if s.fleet.TLS {
		// A generator measures whoever answers.
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut {
		conn.Close()
	}
	s.conn = conn
	return conn, nil
}

// ended is the error of a connection that ended, or nil when it was cut.
func (s *stream) ended(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut {
		return nil
	}
	return fmt.Errorf("%s: %w", s.node.ID, err)
}

// close cuts the stream, as a broken connection does.
func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = true
	if s.conn != nil {
		s.conn.Close()
	}
}

// configured is called once the configuration is whole.
func (s *stream) configured() {
	s.whole.Store(int64(time.Since(s.began)))
	s.generation.oneFull()
}

// sawEndpoints is called with every set of endpoints.
func (s *stream) sawEndpoints(name, body []byte) {
	if s.fleet.keeping.Load() {
		s.bodiesMu.Lock()
		s.bodies[string(name)] = append([]byte(nil), body...)
		s.bodiesMu.Unlock()
	}
	if f := s.fleet.flip.Load(); f != nil {
		f.see(s.index, name, body)
	}
}
