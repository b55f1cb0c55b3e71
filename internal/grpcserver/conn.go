package grpcserver

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
)

// tracked is a listener that counts its connections.
type tracked struct {
	net.Listener
	server *Server
}

// Accept implements [net.Listener]. Connections beyond the limit are closed at once: a client that is
// kept waiting does not try another server.
func (l tracked) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.server.connections.take() {
			return l.server.accepted(raw), nil
		}
		l.server.refused(ReasonConnections, "a connection is refused: there are too many, as there may be for so many --max-streams",
			"address", raw.RemoteAddr().String(), "limit", l.server.connections.max)
		_ = raw.Close() // there is nothing else to do with it
	}
}

// conn is a connection. gRPC says nothing of those on which HTTP/2 never begins, so it looks itself at
// what is said on it.
type conn struct {
	net.Conn
	server  *Server
	streams pool

	established atomic.Bool // HTTP/2 has begun
	shaking     atomic.Bool // TLS has not ended beginning: it closes the connection before it says why
	closing     sync.Once
	closed      error

	// set when HTTP/2 begins
	old context.Context // ends when the connection is old or has ended
	die context.CancelFunc

	mu      sync.Mutex // guards what was heard
	head    []byte     // how it begins, in TLS or not, up to headSize
	failure error      // the last one of reading or of TLS
}

func (s *Server) newConn(raw net.Conn) *conn {
	c := &conn{Conn: raw, server: s}
	c.streams.max, c.streams.reason = maxConnectionStreams, ReasonConnectionStreams
	c.streams.full = "on one connection is reached: open another connection"
	return c
}

// accepted returns a connection that is to begin.
func (s *Server) accepted(raw net.Conn) *conn {
	c := s.newConn(raw)
	s.mu.Lock()
	s.beginning[c] = struct{}{}
	s.mu.Unlock()
	if s.isEnding() {
		s.cutBeginning()
	}
	return c
}

// begun takes a connection for one that has begun, or never will.
func (s *Server) begun(c *conn) {
	s.mu.Lock()
	delete(s.beginning, c)
	s.mu.Unlock()
}

// cutBeginning cuts off the connections that have not begun: gRPC would wait for each until its time is
// up before it ends.
func (s *Server) cutBeginning() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.beginning {
		_ = c.Conn.Close() // gRPC sees that it fails, and closes it in its own way
	}
}

// localAddr is how gRPC hands back the connection when it has begun.
type localAddr struct {
	net.Addr
	conn *conn
}

// LocalAddr implements [net.Conn].
func (c *conn) LocalAddr() net.Addr { return localAddr{c.Conn.LocalAddr(), c} }

// headSize is more than is read of a client in plaintext before TLS gives up.
const headSize = 4 << 10

// Read implements [net.Conn].
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.established.Load() {
		c.mu.Lock()
		c.head = append(c.head, b[:min(n, headSize-len(c.head))]...)
		if err != nil {
			c.failure = err
		}
		c.mu.Unlock()
	}
	return n, err
}

// begin is called when HTTP/2 has begun. What was heard before is of no use then.
func (c *conn) begin() {
	c.established.Store(true)
	c.server.begun(c)
	c.mu.Lock()
	c.head = nil
	c.mu.Unlock()
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	if c.shaking.Load() {
		return nil
	}
	c.closing.Do(func() {
		if !c.established.Load() && !c.server.isEnding() {
			c.explain()
		}
		c.closed = c.Conn.Close()
		c.server.begun(c)
		c.server.connections.give()
	})
	return c.closed
}
