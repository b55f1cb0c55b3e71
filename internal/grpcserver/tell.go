package grpcserver

import (
	"bytes"
	"io"
	"net"
	"strconv"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
)

const (
	// tellTimeout is how long a client may take to make a call, to be told why it is not served.
	tellTimeout = time.Second
	// tellFrames are what it may say before, of at most tellFrameSize each.
	tellFrames    = 8
	tellFrameSize = 16 << 10
)

// tell answers the first call of a client that speaks HTTP/2 in plaintext on a port that has TLS: as a
// status, because clients show that to people. Head is what it has said already.
func tell(conn net.Conn, head []byte, why string) {
	_ = conn.SetDeadline(time.Now().Add(tellTimeout)) // it fails on a connection on which nothing works
	said := io.MultiReader(bytes.NewReader(head), conn)
	if _, err := io.ReadFull(said, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	framer := http2.NewFramer(conn, said)
	framer.SetMaxReadFrameSize(tellFrameSize)
	if framer.WriteSettings() != nil {
		return
	}
	for range tellFrames {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		if call, ok := frame.(*http2.HeadersFrame); ok {
			_ = framer.WriteHeaders(http2.HeadersFrameParam{ // it is not heard by who has left
				StreamID: call.StreamID, BlockFragment: unavailable(why), EndHeaders: true, EndStream: true,
			})
			_ = framer.WriteGoAway(call.StreamID, http2.ErrCodeInadequateSecurity, []byte(why)) // as above
			hangUp(conn)
			return
		}
	}
}

// unavailable is the header block of an answer that is only a status.
func unavailable(why string) []byte {
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, f := range []hpack.HeaderField{
		{Name: ":status", Value: "200"},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "grpc-status", Value: strconv.Itoa(int(codes.Unavailable))},
		{Name: "grpc-message", Value: why},
	} {
		_ = enc.WriteField(f) // to memory
	}
	return block.Bytes()
}

// hangUp waits until the other side closes the connection: one that is closed with something unread
// takes back what was last written on it.
func hangUp(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, conn, tellFrames*tellFrameSize) // until it has, or time is up
	}
}
