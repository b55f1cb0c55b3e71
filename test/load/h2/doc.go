// Package h2 is the client's side of one gRPC call on an HTTP/2 connection of its own, without I/O:
// bytes come in, messages and the bytes to write come out. It does what such a call needs and no more,
// so that thousands of them leave the processor to the server. It keeps no time and starts nothing.
package h2

import (
	"errors"
	"fmt"
)

// The bounds of what a server may make this side hold.
const (
	maxMessage = 256 << 20
	maxHeaders = 64 << 10
)

// The sizes that HTTP/2 starts with, and that this side keeps.
const (
	headerSize    = 9
	maxFrame      = 16 << 10
	defaultWindow = 65535
	maxWindow     = 1<<31 - 1
)

// streamID is the one stream of a connection.
const streamID = 1

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// Ended is the error of a call that the server has ended. Code is gRPC's.
type Ended struct {
	Code    uint32
	Message string
}

// The codes of a call that ends without one.
const (
	codeUnknown     = 2
	codeInternal    = 13
	codeUnavailable = 14
)

// Error says how the server ended the call.
func (e *Ended) Error() string {
	return fmt.Sprintf("h2: the server ended the call with code %d: %s", e.Code, e.Message)
}

// errProtocol is the root of the errors of a server that does not speak HTTP/2 or gRPC as it should.
var errProtocol = errors.New("h2: the server broke the protocol")

func broken(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errProtocol, fmt.Sprintf(format, args...))
}
