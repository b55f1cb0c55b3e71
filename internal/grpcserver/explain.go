package grpcserver

import (
	"bytes"
	"errors"
	"io"
	"os"
	"syscall"

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
		tell(c.Conn, head, "this port serves TLS: give the client TLS and the CA of the server's certificate")
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
	head = head[:min(len(head), len(http2.ClientPreface))]
	return len(head) > 0 && bytes.HasPrefix([]byte(http2.ClientPreface), head)
}
