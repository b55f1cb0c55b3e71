package grpcserver

import (
	"bytes"
	"io"
	"maps"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// pipes is a listener whose connections are within the process, so that time in a test can be its own.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p pipes) Close() error   { close(p.done); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// hear returns what was said on a connection until the other side closed it, and after how long.
func hear(conn net.Conn) (said *bytes.Buffer, after time.Duration) {
	begin := time.Now()
	said = &bytes.Buffer{}
	_, _ = io.Copy(said, conn) // it ends because the connection does
	return said, time.Since(begin)
}

// settings is how a client begins that has nothing to say of itself.
func settings() []byte {
	var out bytes.Buffer
	out.WriteString(http2.ClientPreface)
	_ = http2.NewFramer(&out, nil).WriteSettings() // to memory
	return out.Bytes()
}

// pings asks for more signs of life than anyone needs.
func pings() []byte {
	out := bytes.NewBuffer(settings())
	framer := http2.NewFramer(out, nil)
	for range 100 {
		_ = framer.WritePing(false, [8]byte{1}) // to memory
	}
	return out.Bytes()
}

// headers opens a stream with more metadata than anyone needs.
func headers() []byte {
	out := bytes.NewBuffer(settings())
	framer := http2.NewFramer(out, nil)
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	_ = enc.WriteField(hpack.HeaderField{Name: "x-large", Value: strings.Repeat("#", 1<<20)}) // to memory
	fragment := block.Bytes()
	_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: fragment[:1<<14]}) // as above
	for fragment = fragment[1<<14:]; len(fragment) > 0; {
		n := min(len(fragment), 1<<14)
		_ = framer.WriteContinuation(1, n == len(fragment), fragment[:n]) // as above
		fragment = fragment[n:]
	}
	return out.Bytes()
}

func TestAConnectionOfNoUseIsClosed(t *testing.T) {
	b := defaultBounds()
	for name, tt := range map[string]struct {
		say    []byte
		within time.Duration
		reason string // that it is refused for
	}{
		"silent":              {nil, b.handshake, ReasonHandshake},
		"half a preface":      {[]byte(http2.ClientPreface[:12]), b.handshake, ReasonHandshake},
		"no settings":         {[]byte(http2.ClientPreface), b.handshake, ReasonHandshake},
		"another protocol":    {[]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), b.handshake, ReasonProtocol},
		"TLS":                 {[]byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 and so on, for as long as hello is"), b.handshake, ReasonTLS},
		"no stream":           {settings(), b.idle + 2*b.pingTimeout, ""},
		"pings":               {pings(), time.Second, ""},
		"headers without end": {headers(), time.Second, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := pipes{make(chan net.Conn), make(chan struct{})}
				counts := &counts{}
				s := newServer(t, Config{Metrics: counts})
				served := make(chan error, 1)
				go func() { served <- s.Run(t.Context(), l) }()
				theirs, ours := net.Pipe()
				l.conns <- theirs
				wrote := make(chan struct{})
				go func() {
					defer close(wrote)
					_, _ = ours.Write(tt.say) // cut off when they have heard enough
				}()
				if said, after := hear(ours); after > tt.within {
					t.Errorf("closed after %s and %d bytes, want within %s", after, said.Len(), tt.within)
				}
				_ = ours.Close()
				<-wrote
				want := map[string]int{}
				if tt.reason != "" {
					want[tt.reason] = 1
				}
				if got := counts.refusals(); !maps.Equal(got, want) {
					t.Errorf("refused %v, want %v", got, want)
				}
				s.Stop(func() {})
				if err := <-served; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
