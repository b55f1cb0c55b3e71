package consulwatch

import (
	"errors"
	"io"
	"net"
	"syscall"
)

// watchedConn tells why a connection cannot be used any more: gRPC's own words differ at each attempt, and
// leave out what the other side said.
type watchedConn struct {
	net.Conn
	note func(error)
}

// Read implements [net.Conn].
func (c *watchedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		c.note(err)
	}
	return n, err
}

// Write implements [net.Conn].
func (c *watchedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil {
		c.note(c.cause(err))
	}
	return n, err
}

// cause returns why the other side does not take any more. A server that does not accept a certificate says
// so after the handshake, and what is written meanwhile only finds the connection closed.
func (c *watchedConn) cause(err error) error {
	if !isClosed(err) {
		return err
	}
	_, said := io.Copy(io.Discard, c.Conn) // what was said before; there will be no more
	if said == nil || isClosed(said) {
		return err
	}
	return said
}

// isClosed reports whether the other side has closed a connection.
func isClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
