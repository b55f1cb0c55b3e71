package h2_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/catenary-mesh/catenary/test/load/h2"
)

// echo is a gRPC server whose one method sends back what it gets, and ends with the token it was called
// with when it gets nothing.
func echo(t *testing.T) string {
	t.Helper()
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		for {
			m := &wrapperspb.BytesValue{}
			if err := stream.RecvMsg(m); err != nil {
				return err
			}
			if len(m.GetValue()) == 0 {
				head, _ := metadata.FromIncomingContext(stream.Context())
				return status.Errorf(codes.PermissionDenied, "token %v", head.Get("x-consul-token"))
			}
			if err := stream.SendMsg(m); err != nil {
				return err
			}
		}
	}))
	lis, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(lis) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Errorf("the server: %v", err)
		}
	})
	return lis.Addr().String()
}

// peer runs a call on a connection.
type peer struct {
	t    *testing.T
	conn net.Conn
	call *h2.Call
	buf  []byte
}

func dial(t *testing.T, window, piece int) *peer {
	t.Helper()
	addr := echo(t)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	call := h2.New(h2.Config{
		Authority: addr, Method: "/any.Service/Method", Window: window, Header: map[string]string{"x-consul-token": "abc"},
	})
	return &peer{t: t, conn: conn, call: call, buf: make([]byte, piece)}
}

// exchange sends a message and returns the next, or how the call ended.
func (p *peer) exchange(message []byte) (got []byte, err error) {
	p.t.Helper()
	p.call.Send(message)
	for got == nil && err == nil {
		if _, err := p.conn.Write(p.call.Output()); err != nil {
			p.t.Fatal(err)
		}
		n, readErr := p.conn.Read(p.buf)
		if readErr != nil {
			p.t.Fatal(readErr)
		}
		err = p.call.Receive(p.buf[:n], func(m []byte) error {
			got = bytes.Clone(m)
			return nil
		})
	}
	return got, err
}

// message is an encoded BytesValue of n bytes.
func message(n int) []byte {
	if n == 0 {
		return nil
	}
	b := []byte{1<<3 | 2}
	for v := n; ; v >>= 7 {
		if v < 0x80 {
			b = append(b, byte(v))
			break
		}
		b = append(b, byte(v)|0x80)
	}
	return append(b, bytes.Repeat([]byte{'x'}, n)...)
}

func TestMessagesOfEverySizeInPiecesOfEverySize(t *testing.T) {
	for _, window := range []int{0, 4 << 20} {
		for _, piece := range []int{1, 7, 64 << 10} {
			t.Run(fmt.Sprint(window, piece), func(t *testing.T) {
				p := dial(t, window, piece)
				sizes := []int{1, 100, 20_000, 1}
				if piece > 100 {
					sizes = append(sizes, 1_000_000, 70_000)
				}
				for _, n := range sizes {
					got, err := p.exchange(message(n))
					if err != nil || !bytes.Equal(got, message(n)) {
						t.Fatalf("of %d bytes come %d: %v", n, len(got), err)
					}
				}
				if !p.call.Ready() {
					t.Error("it is not ready")
				}
			})
		}
	}
}

func TestACallThatTheServerEndsSaysWhy(t *testing.T) {
	_, err := dial(t, 0, 4096).exchange(nil)
	var ended *h2.Ended
	if !errors.As(err, &ended) || ended.Code != uint32(codes.PermissionDenied) || ended.Message != "token [abc]" {
		t.Errorf("it ended with %v", err)
	}
}

// frames is what a server writes with the framer.
func frames(t *testing.T, write func(*http2.Framer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	f := http2.NewFramer(&b, nil)
	f.AllowIllegalWrites = true
	if err := write(f); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestAnAnswerToEveryFrame(t *testing.T) {
	call := h2.New(h2.Config{Authority: "a", Method: "/m"})
	call.Output()
	ping := [8]byte{1, 2, 3}
	err := call.Receive(frames(t, func(f *http2.Framer) error {
		return errors.Join(f.WriteSettings(), f.WriteSettingsAck(), f.WritePing(false, ping), f.WritePing(true, ping),
			f.WriteGoAway(0, http2.ErrCodeNo, nil), f.WriteRawFrame(0xbe, 0, 0, []byte("unknown")))
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(io.Discard, bytes.NewReader(call.Output()))
	var got []string
	for {
		frame, err := framer.ReadFrame()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		h := frame.Header()
		got = append(got, fmt.Sprint(h.Type, " ", h.Flags))
	}
	if want := "SETTINGS 1, PING 1"; strings.Join(got, ", ") != want {
		t.Errorf("answered with %v, want %s", got, want)
	}
}

func TestAServerThatBreaksTheProtocol(t *testing.T) {
	trailers := func(fields ...hpack.HeaderField) []byte {
		var b bytes.Buffer
		e := hpack.NewEncoder(&b)
		for _, f := range fields {
			if err := e.WriteField(f); err != nil {
				t.Fatal(err)
			}
		}
		return b.Bytes()
	}
	header := func(block []byte, end bool) func(*http2.Framer) error {
		return func(f *http2.Framer) error {
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block, EndHeaders: true, EndStream: end})
		}
	}
	for want, write := range map[string]func(*http2.Framer) error{
		"a frame of 20000 bytes":        func(f *http2.Framer) error { return f.WriteData(1, false, make([]byte, 20_000)) },
		"DATA on stream 3":              func(f *http2.Framer) error { return f.WriteData(3, false, nil) },
		"compressed":                    func(f *http2.Framer) error { return f.WriteData(1, false, []byte{1, 0, 0, 0, 0}) },
		"a message of 4294967295 bytes": func(f *http2.Framer) error { return f.WriteData(1, false, []byte{0, 255, 255, 255, 255}) },
		"more padding than frame":       func(f *http2.Framer) error { return f.WriteRawFrame(0, http2.FlagDataPadded, 1, []byte{9, 0}) },
		"no status was sent":            func(f *http2.Framer) error { return f.WriteData(1, true, nil) },
		"SETTINGS of 5 bytes":           func(f *http2.Framer) error { return f.WriteRawFrame(http2.FrameSettings, 0, 0, make([]byte, 5)) },
		"a window of 4294967295 bytes":  func(f *http2.Framer) error { return f.WriteSettings(http2.Setting{ID: 4, Val: 1<<32 - 1}) },
		"a WINDOW_UPDATE of 3 bytes":    func(f *http2.Framer) error { return f.WriteRawFrame(http2.FrameWindowUpdate, 0, 0, make([]byte, 3)) },
		"a window of 2147549182 bytes":  func(f *http2.Framer) error { return f.WriteWindowUpdate(0, 1<<31-1) },
		"RST_STREAM CANCEL":             func(f *http2.Framer) error { return f.WriteRSTStream(1, http2.ErrCodeCancel) },
		"GOAWAY ENHANCE_YOUR_CALM":      func(f *http2.Framer) error { return f.WriteGoAway(0, http2.ErrCodeEnhanceYourCalm, nil) },
		"headers: decoding error":       header([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, false),
		"no grpc-status, HTTP status":   header(trailers(hpack.HeaderField{Name: ":status", Value: "404"}), false),
		`grpc-status "x"`:               header(trailers(hpack.HeaderField{Name: "grpc-status", Value: "x"}), true),
		"with code 0: bye":              header(trailers(hpack.HeaderField{Name: "grpc-status", Value: "0"}, hpack.HeaderField{Name: "grpc-message", Value: "bye"}), true),
		"headers of more than 65536 byt": func(f *http2.Framer) error {
			return errors.Join(f.WriteRawFrame(http2.FrameHeaders, 0, 1, make([]byte, 16384)), f.WriteContinuation(1, false, make([]byte, 16384)), f.WriteContinuation(1, false, make([]byte, 16384)), f.WriteContinuation(1, false, make([]byte, 16384)), f.WriteContinuation(1, true, make([]byte, 1)))
		},
	} {
		call := h2.New(h2.Config{Authority: "a", Method: "/m"})
		err := call.Receive(frames(t, write), func([]byte) error { return nil })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %s", err, want)
		}
	}
}

func FuzzReceive(f *testing.F) {
	f.Add([]byte{0, 0, 6, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 'x'}, 3)
	f.Add([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0}, 1)
	f.Fuzz(func(t *testing.T, read []byte, piece int) {
		whole, pieces := h2.New(h2.Config{}), h2.New(h2.Config{})
		var want, got []byte
		wantErr := whole.Receive(read, func(m []byte) error { want = append(want, m...); return nil })
		var err error
		for piece = max(1, piece); len(read) > 0 && err == nil; read = read[min(piece, len(read)):] {
			err = pieces.Receive(read[:min(piece, len(read))], func(m []byte) error { got = append(got, m...); return nil })
		}
		if !bytes.Equal(want, got) || fmt.Sprint(wantErr) != fmt.Sprint(err) || !bytes.Equal(whole.Output(), pieces.Output()) {
			t.Errorf("in pieces: %q %v, whole %q %v", got, err, want, wantErr)
		}
	})
}
