package grpcserver

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/net/http2"
)

// explain says why HTTP/2 never began on a connection, which is about to be closed: to us, and where it
// can be understood, to the client.
func (c *conn) explain() {
	c.mu.Lock()
	head, failure := c.head, c.failure
	c.mu.Unlock()
	args := []any{"address", c.RemoteAddr().String()}
	secure := c.server.certs != nil
	switch {
	case !secure && isTLS(head):
		c.server.refused(ReasonTLS, "a client speaks TLS, and this port serves plaintext: "+
			"give --grpc-tls-cert and --grpc-tls-key, or take TLS out of the client's bootstrap", args...)
	case secure && isHTTP2(head):
		c.server.refused(ReasonTLS, "a client speaks plaintext, and this port serves TLS: "+
			"give the client TLS and the CA of this server's certificate", args...)
		c.goAway("this port serves TLS: give the client TLS and the CA of the server's certificate")
	case errors.Is(failure, os.ErrDeadlineExceeded):
		c.server.refused(ReasonHandshake, "a connection is closed: its client has not begun to speak HTTP/2 in time",
			append(args, "limit", c.server.bounds.handshake.String())...)
	case hasLeft(failure):
		// It changed its mind, or only looked whether the port is open.
	case secure && isTLS(head) && failure != nil:
		c.server.refused(ReasonTLS, "a client and this port do not agree on TLS", append(args, "error", failure.Error())...)
	default:
		c.server.refused(ReasonProtocol, "a client does not speak gRPC", args...)
	}
}

// hasLeft holds when the client ended the connection.
func hasLeft(failure error) bool {
	return errors.Is(failure, io.EOF) || errors.Is(failure, io.ErrClosedPipe) || errors.Is(failure, syscall.ECONNRESET)
}

// isTLS holds for the record that TLS begins with.
func isTLS(head []byte) bool { return bytes.HasPrefix(head, []byte{0x16, 0x03}) }

// isHTTP2 holds for what a client begins with that has no TLS.
func isHTTP2(head []byte) bool {
	return len(head) > 0 && bytes.HasPrefix([]byte(http2.ClientPreface), head)
}

// goAwayTimeout is how long the client may take to listen.
const goAwayTimeout = time.Second

// goAway tells a client in plaintext to go, and why.
func (c *conn) goAway(why string) {
	_ = c.Conn.SetDeadline(time.Now().Add(goAwayTimeout)) // it fails on a connection on which nothing works
	var out bytes.Buffer
	framer := http2.NewFramer(&out, nil)
	_ = framer.WriteSettings()                                              // to memory
	_ = framer.WriteGoAway(0, http2.ErrCodeInadequateSecurity, []byte(why)) // to memory
	if _, err := c.Conn.Write(out.Bytes()); err != nil {
		return
	}
	// A connection that is closed with something unread takes back what was last written on it.
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, c.Conn, maxHeaders) // until the client has gone, or time is up
	}
}

var _ interface{ CloseWrite() error } = (*net.TCPConn)(nil)
