package destination

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/catenary-mesh/catenary/internal/proto/destination"
)

// quiet is a server without a network, in a bubble: when nothing goes on any more time passes at once.
type quiet struct {
	*world
	*Server
	counts *counts
	ctx    context.Context
	group  *sync.WaitGroup
}

// inBubble runs a test with a server of a world that begins as newWorld has it.
func inBubble(t *testing.T, change func(*Config), f func(*quiet)) {
	synctest.Test(t, func(t *testing.T) {
		w, counts := newWorld(t), &counts{}
		cfg := Config{Store: w.store, Logger: hclog.NewNullLogger(), Metrics: counts, Place: place1(), Guard: open{}, Keepalive: time.Hour}
		if change != nil {
			change(&cfg)
		}
		ctx, cancel := context.WithCancel(context.Background())
		q := &quiet{world: w, Server: NewServer(cfg), counts: counts, ctx: ctx, group: &sync.WaitGroup{}}
		q.group.Go(func() { _ = q.Run(ctx) })
		f(q)
		cancel()
		q.group.Wait()
	})
}

// settle lets pass what the server takes to make and tell what changed, but not what it waits for longer.
func (*quiet) settle() {
	time.Sleep(5 * coalesce)
	synctest.Wait()
}

// tape is what a stream was sent.
type tape[M proto.Message] struct {
	ctx context.Context
	new func() M

	mu   sync.Mutex
	list []M
	end  error // why it ended
}

func (t *tape[M]) Context() context.Context   { return t.ctx }
func (*tape[M]) SetHeader(metadata.MD) error  { return nil }
func (*tape[M]) SendHeader(metadata.MD) error { return nil }
func (*tape[M]) SetTrailer(metadata.MD)       {}
func (*tape[M]) RecvMsg(any) error            { return nil }
func (t *tape[M]) Send(m M) error             { return t.SendMsg(m) }

func (t *tape[M]) SendMsg(m any) error {
	raw, err := proto.Marshal(m.(proto.Message))
	if err != nil {
		return err
	}
	out := t.new()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = append(t.list, out)
	return proto.Unmarshal(raw, out)
}

// take returns what was sent since the last time, and with which code the stream ended, OK while it has not.
func (t *tape[M]) take() ([]M, codes.Code) {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := t.list
	t.list = nil
	return list, status.Code(t.end)
}

func follow[M proto.Message](q *quiet, empty func() M, serve func(*tape[M]) error) *tape[M] {
	t := &tape[M]{ctx: q.ctx, new: empty}
	q.group.Go(func() {
		err := serve(t)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.end = err
	})
	q.settle()
	return t
}

func (q *quiet) profiles(path string) *tape[*pb.DestinationProfile] {
	return follow(q, func() *pb.DestinationProfile { return &pb.DestinationProfile{} }, func(t *tape[*pb.DestinationProfile]) error {
		return modern{Server: q.Server}.GetProfile(&pb.GetDestination{Path: path, ContextToken: `{"nodeName":"n7"}`}, t)
	})
}

func (q *quiet) updates(path, token string) *tape[*pb.Update] {
	return follow(q, func() *pb.Update { return &pb.Update{} }, func(t *tape[*pb.Update]) error {
		return modern{Server: q.Server}.Get(&pb.GetDestination{Path: path, ContextToken: token}, t)
	})
}
