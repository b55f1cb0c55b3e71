package h2

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Config says what is called.
type Config struct {
	// Authority is host:port, and Method as in /package.Service/Method.
	Authority, Method string
	// Header is sent with the call, such as a token; its names are in lower case.
	Header map[string]string
	// Window is how many bytes the server may send ahead; 0 is HTTP/2's own, 65535.
	Window int
	// TLS says that the connection is encrypted, which the call's headers tell.
	TLS bool
}

// Call is a call that is made by one goroutine. [New] makes it.
type Call struct {
	out     []byte
	rest    []byte // the begin of a frame whose end has not come
	message []byte // the begin of a message whose end has not come
	block   []byte // the begin of a header block whose end has not come
	headers *hpack.Decoder
	status  status
	ready   bool
	ending  bool // the trailers have begun

	// What this side may send, on the stream and on the connection, and what waits until it may.
	streamWindow, connWindow int64
	initialWindow            int64 // that of a new stream, as the server has it
	frame                    int   // the longest frame that the server takes
	waiting                  []byte

	// What the server may send, and how much of it has come that it has not been told.
	window   int
	received int
}

// New makes a call, whose first output is the connection's begin and the call's headers.
func New(c Config) *Call {
	call := &Call{
		streamWindow: defaultWindow, connWindow: defaultWindow, initialWindow: defaultWindow,
		frame: maxFrame, window: max(c.Window, defaultWindow),
	}
	call.headers = hpack.NewDecoder(4096, call.status.field)
	call.headers.SetMaxStringLength(maxHeaders)

	call.out = append(call.out, preface...)
	call.out = appendHeader(call.out, 2*6, http2.FrameSettings, 0, 0)
	call.out = appendSetting(call.out, http2.SettingEnablePush, 0)
	call.out = appendSetting(call.out, http2.SettingInitialWindowSize, uint32(call.window))
	if more := call.window - defaultWindow; more > 0 {
		call.out = appendWindow(call.out, 0, more)
	}
	block := requestHeaders(c)
	call.out = appendHeader(call.out, len(block), http2.FrameHeaders, http2.FlagHeadersEndHeaders, streamID)
	call.out = append(call.out, block...)
	return call
}

func requestHeaders(c Config) []byte {
	var b bytes.Buffer
	encoder := hpack.NewEncoder(&b)
	write := func(name, value string, secret bool) {
		_ = encoder.WriteField(hpack.HeaderField{Name: name, Value: value, Sensitive: secret}) // a buffer takes all
	}
	write(":method", "POST", false)
	scheme := "http"
	if c.TLS {
		scheme = "https"
	}
	write(":scheme", scheme, false)
	write(":path", c.Method, false)
	write(":authority", c.Authority, false)
	write("content-type", "application/grpc", false)
	write("te", "trailers", false)
	write("user-agent", "xdsload", false)
	for name, value := range c.Header {
		write(name, value, true)
	}
	return b.Bytes()
}

// Ready says whether the server has answered on this connection.
func (c *Call) Ready() bool { return c.ready }

// Output returns what is to be written, which counts as written; it is valid until the next call.
func (c *Call) Output() []byte {
	out := c.out
	c.out = c.out[:0]
	return out
}

// Send puts a message into the output, or holds back what of it the server does not take yet.
func (c *Call) Send(message []byte) {
	var prefix [5]byte
	binary.BigEndian.PutUint32(prefix[1:], uint32(len(message)))
	c.waiting = append(append(c.waiting, prefix[:]...), message...)
	c.flush()
}

// flush puts as much of what waits into the output as the windows allow.
func (c *Call) flush() {
	sent := 0
	for sent < len(c.waiting) {
		n := min(int64(len(c.waiting)-sent), int64(c.frame), c.streamWindow, c.connWindow)
		if n <= 0 {
			break
		}
		c.out = appendHeader(c.out, int(n), http2.FrameData, 0, streamID)
		c.out = append(c.out, c.waiting[sent:sent+int(n)]...)
		c.streamWindow -= n
		c.connWindow -= n
		sent += int(n)
	}
	c.waiting = c.waiting[:copy(c.waiting, c.waiting[sent:])]
}

// Receive takes what was read, in pieces of any size, and calls f with every message that is complete.
// A message is valid until f returns. An error ends the call; it is an [Ended] when the server ended it.
func (c *Call) Receive(read []byte, f func([]byte) error) error {
	if len(c.rest) > 0 {
		c.rest = append(c.rest, read...)
		read = c.rest
	}
	for len(read) >= headerSize {
		h := parseHeader(read)
		if h.length > maxFrame {
			return broken("a frame of %d bytes", h.length)
		}
		if len(read) < headerSize+h.length {
			break
		}
		if err := c.take(h, read[headerSize:headerSize+h.length], f); err != nil {
			return err
		}
		read = read[headerSize+h.length:]
	}
	c.rest = append(c.rest[:0], read...)
	return nil
}
