package grpcserver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// held is what a process holds on to.
type held struct{ goroutines, files int }

func holding(t *testing.T) held {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil && !os.IsNotExist(err) { // not every system tells
		t.Fatal(err)
	}
	return held{runtime.NumGoroutine(), len(files)}
}

// frames returns a client's beginning, and what write adds to it.
func frames(write func(f *http2.Framer, call []byte)) []byte {
	out := bytes.NewBuffer(settings())
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	enc.SetMaxDynamicTableSize(0) // so that a block stands for itself
	for _, f := range []hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"},
		{Name: ":path", Value: echoStream},
		{Name: ":authority", Value: "x"},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"},
	} {
		_ = enc.WriteField(f) // to memory
	}
	write(http2.NewFramer(out, nil), block.Bytes())
	return out.Bytes()
}

// calls opens so many streams, and ends each as end does. Nothing fails, because it is to memory.
func calls(n int, end func(f *http2.Framer, id uint32)) []byte {
	return frames(func(f *http2.Framer, call []byte) {
		for i := range n {
			id := uint32(2*i + 1)
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: call, EndHeaders: true})
			end(f, id)
		}
	})
}

// attacks are what connections begin with that are up to no good, and how many of them there are.
func attacks() map[string]struct {
	conns int
	say   []byte
} {
	reset := func(f *http2.Framer, id uint32) { _ = f.WriteRSTStream(id, http2.ErrCodeCancel) }
	large := func(f *http2.Framer, id uint32) {
		_ = f.WriteData(id, false, []byte{0, 0xff, 0xff, 0xff, 0xff}) // a message of 4 GiB, so it says
		for range 3 {
			_ = f.WriteData(id, false, make([]byte, 1<<14))
		}
		reset(f, id)
	}
	many := func(n int, frame func(f *http2.Framer)) []byte {
		return frames(func(f *http2.Framer, _ []byte) {
			for range n {
				frame(f)
			}
		})
	}
	return map[string]struct {
		conns int
		say   []byte
	}{
		"idle connections":    {500, nil},
		"no settings":         {50, []byte(http2.ClientPreface)},
		"half a preface":      {50, []byte(http2.ClientPreface[:5])},
		"streams that end":    {4, calls(20_000, reset)},
		"messages too large":  {4, calls(20, large)},
		"pings":               {4, many(20_000, func(f *http2.Framer) { _ = f.WritePing(false, [8]byte{}) })},
		"settings":            {4, many(20_000, func(f *http2.Framer) { _ = f.WriteSettings() })},
		"windows":             {4, many(20_000, func(f *http2.Framer) { _ = f.WriteWindowUpdate(0, 1) })},
		"garbage":             {4, bytes.Repeat([]byte("\xff\x00"), 1<<16)},
		"garbage in a stream": {4, append(calls(1, func(*http2.Framer, uint32) {}), bytes.Repeat([]byte{0xff}, 1<<16)...)},
	}
}

// attack says something on a connection, and reads only once it has. It returns when the server has
// closed it.
func attack(addr string, say []byte) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		return err
	}
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		_, _ = conn.Write(say) // cut off when they have heard enough
	}()
	defer func() { conn.Close(); <-wrote }()
	if _, err := io.Copy(io.Discard, conn); os.IsTimeout(err) {
		return fmt.Errorf("the server keeps the connection: %w", err)
	}
	return nil
}

func TestHostileClientsCostNothingThatStays(t *testing.T) {
	b := defaultBounds()
	b.handshake, b.idle, b.pingTimeout = 2*time.Second, 2*time.Second, time.Second
	s := start(t, Config{bounds: &b})
	live := open(t, s.dial(t, nil))
	if err := say(live, 1); err != nil {
		t.Fatal(err)
	}
	base := holding(t)

	var group sync.WaitGroup
	for name, a := range attacks() {
		for range a.conns {
			group.Go(func() {
				if err := attack(s.addr, a.say); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
	}
	over := make(chan struct{})
	go func() { defer close(over); group.Wait() }()
	slowest := time.Duration(0)
	for running := true; running; {
		begin := time.Now()
		if err := say(live, 100); err != nil {
			t.Fatalf("a client that did nothing wrong is cut off: %v", err)
		}
		slowest = max(slowest, time.Since(begin))
		select {
		case <-over:
			running = false
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Logf("a client that did nothing wrong waited for %s at most; refused %v", slowest, s.counts.refusals())
	if slowest > 15*time.Second {
		t.Errorf("a client that did nothing wrong waited for %s", slowest)
	}
	testenv.Eventually(t, 30*time.Second, func() error {
		if now := holding(t); now.goroutines > base.goroutines || now.files > base.files {
			return fmt.Errorf("holding %+v, and before %+v", now, base)
		}
		return s.counts.stands(1, 1)
	})
}

func TestAClientThatDoesNotReadIsCutOff(t *testing.T) {
	b := defaultBounds()
	b.pingEvery, b.pingTimeout = time.Second, time.Second
	s := start(t, Config{bounds: &b})
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	open := calls(1, func(*http2.Framer, uint32) {})
	if _, err := conn.Write(open); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, patient, func() error { return s.counts.stands(1, 1) })
	testenv.Eventually(t, patient, func() error { return s.counts.stands(0, 0) })
}

func TestAClientThatLeavesTakesItsStreamsAlong(t *testing.T) {
	s := start(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 20 {
		conn := s.dial(t, nil)
		if _, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, echoStream); err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	testenv.Eventually(t, patient, func() error { return s.counts.stands(20, 20) })
	cancel()
	testenv.Eventually(t, patient, func() error { return s.counts.stands(20, 0) })
}
