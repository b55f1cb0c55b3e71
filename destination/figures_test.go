package destination

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/catenary-mesh/catenary/internal/facts"
	pb "github.com/catenary-mesh/catenary/internal/proto/destination"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// wire stands for the connection of a stream: what is sent arrives at once.
type wire struct {
	ctx  context.Context
	sent func(*pb.Update)
}

func (w *wire) Context() context.Context   { return w.ctx }
func (*wire) SetHeader(metadata.MD) error  { return nil }
func (*wire) SendHeader(metadata.MD) error { return nil }
func (*wire) SetTrailer(metadata.MD)       {}
func (*wire) RecvMsg(any) error            { return nil }
func (w *wire) Send(u *pb.Update) error    { return w.SendMsg(u) }
func (w *wire) SendMsg(m any) error        { w.sent(m.(*pb.Update)); return nil }

// fleet has n streams of api, and counts the messages of all.
func fleet(t testing.TB, s *served, n int) *atomic.Int64 {
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	t.Cleanup(func() { cancel(); group.Wait() })
	messages := &atomic.Int64{}
	for i := range n {
		group.Go(func() {
			_ = modern{Server: s.Server}.Get(
				&pb.GetDestination{Path: api, ContextToken: fmt.Sprintf(`{"nodeName":"client-%d"}`, i)},
				&wire{ctx: ctx, sent: func(*pb.Update) { messages.Add(1) }})
		})
	}
	return messages
}

func hundred(sick int) []*facts.Instance {
	var all []*facts.Instance
	for i := range 100 {
		in := instance("api", i+1)
		if i == sick {
			in = critical(in)
		}
		all = append(all, in)
	}
	return all
}

func arrived(t testing.TB, messages *atomic.Int64, want int64) {
	t.Helper()
	testenv.Eventually(t, 30*time.Second, func() error {
		if got := messages.Load(); got != want {
			return fmt.Errorf("%d messages of %d", got, want)
		}
		return nil
	})
}

// TestWhatAChangeCosts counts: one flip is encoded once and is one message for each stream, whoever asks.
func TestWhatAChangeCosts(t *testing.T) {
	const streams = 1000
	w := newWorld(t)
	w.services("api")
	w.service("api", hundred(-1), nil)
	s := serve(t, w, nil)
	messages := fleet(t, s, streams)
	arrived(t, messages, streams)
	if encoded, _ := s.counts.get(); encoded != 1 {
		t.Errorf("the set was encoded %d times for %d streams", encoded, streams)
	}
	var took []time.Duration
	for flip := range 10 {
		sick := 7 - 8*(flip%2) // the eighth goes, and comes back
		began := time.Now()
		w.service("api", hundred(sick), nil)
		arrived(t, messages, int64(streams*(flip+2)))
		took = append(took, time.Since(began))
		if encoded, _ := s.counts.get(); encoded != flip+2 {
			t.Errorf("after %d flips the set was encoded %d times", flip+1, encoded)
		}
	}
	slices.Sort(took)
	t.Logf("a flip reached the last of %d streams in %v p50, %v at most", streams, took[len(took)/2], took[len(took)-1])
}

// BenchmarkFlip is how long one flip takes to the last of 1,000 streams of a service with 100 instances.
func BenchmarkFlip(b *testing.B) {
	const streams = 1000
	w := newWorld(b)
	w.services("api")
	w.service("api", hundred(-1), nil)
	s := serve(b, w, nil)
	messages := fleet(b, s, streams)
	arrived(b, messages, streams)
	want := int64(streams)
	for b.Loop() {
		sick := -1
		if (want/streams)%2 == 1 {
			sick = 7
		}
		w.service("api", hundred(sick), nil)
		want += streams
		for messages.Load() != want {
			runtime.Gosched()
		}
	}
}

// TestAColdStartSaysNothingThatIsNotSo has streams come a hundred at a time while a source becomes known bit by bit:
// none is ever told that a service has no endpoints that has some.
func TestAColdStartSaysNothingThatIsNotSo(t *testing.T) {
	w := &world{t: t, store: facts.New()}
	s := serve(t, w, nil)
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	t.Cleanup(func() { cancel(); group.Wait() })
	var heard, empty atomic.Int64
	come := func() {
		for range 100 {
			group.Go(func() {
				_ = modern{Server: s.Server}.Get(&pb.GetDestination{Path: api}, &wire{ctx: ctx, sent: func(u *pb.Update) {
					heard.Add(1)
					if raw := u.ProtoReflect().GetUnknown(); len(raw) > 0 && raw[0] == byte(updateNoEndpoints)<<3|2 {
						empty.Add(1)
					}
				}})
			})
		}
	}
	come()
	w.entries()
	come()
	w.services("api")
	come()
	w.store.Commit(func(tx *facts.Tx) { tx.Instances(facts.Health("dc1", "api"), hundred(-1), sure) })
	come()
	w.store.Commit(func(tx *facts.Tx) { tx.Instances(facts.Connect("dc1", "api"), nil, sure) })
	come()
	arrived(t, &heard, 500)
	if n := empty.Load(); n > 0 {
		t.Errorf("%d streams were told that there are no endpoints", n)
	}
}

// TestWhatAStreamTakes bounds the memory of a stream, beside its connection.
func TestWhatAStreamTakes(t *testing.T) {
	const streams = 1000
	w := newWorld(t)
	w.services("api")
	w.service("api", hundred(-1), nil)
	s := serve(t, w, nil)
	arrived(t, fleet(t, s, 1), 1)
	before := inUse()
	messages := fleet(t, s, streams)
	arrived(t, messages, streams)
	each := (inUse() - before) / streams
	t.Logf("%d bytes a stream", each)
	if each > 60<<10 {
		t.Errorf("a stream takes %d bytes, want 60 KiB at most", each)
	}
}

func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
