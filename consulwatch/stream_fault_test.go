package consulwatch

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/proto/subscribe"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// saying is what a server says on a stream.
type saying func(*subscribe.SubscribeRequest, grpc.ServerStreamingServer[subscribe.Event]) error

// send says events, and then no more.
func send(events ...*subscribe.Event) saying {
	return func(_ *subscribe.SubscribeRequest, to grpc.ServerStreamingServer[subscribe.Event]) error {
		for _, e := range events {
			if err := to.Send(e); err != nil {
				return err
			}
		}
		<-to.Context().Done()
		return nil
	}
}

// refuse ends each stream.
func refuse(code codes.Code, text string) saying {
	return func(*subscribe.SubscribeRequest, grpc.ServerStreamingServer[subscribe.Event]) error {
		return status.Error(code, text)
	}
}

// fakeStreams is an RPC port that says what a test wants.
type fakeStreams struct {
	subscribe.UnimplementedStateChangeSubscriptionServer
	addr string

	mu       sync.Mutex
	say      saying
	requests map[string][]*subscribe.SubscribeRequest // by key
	times    []time.Time                              // of the requests
	streams  map[string]int                           // that are open, by key
	stop     func()
}

func startStreams(t *testing.T) *fakeStreams {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeStreams{addr: l.Addr().String(), requests: map[string][]*subscribe.SubscribeRequest{}, streams: map[string]int{}}
	g := grpc.NewServer()
	f.stop = g.Stop
	subscribe.RegisterStateChangeSubscriptionServer(g, f)
	go func() { _ = g.Serve(greeted{l}) }() // it ends with the listener
	t.Cleanup(g.Stop)
	return f
}

// greeted takes the byte that says what follows.
type greeted struct{ net.Listener }

func (l greeted) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	first := make([]byte, 1)
	if _, err := c.Read(first); err != nil || first[0] != byteGRPC {
		c.Close()
		return l.Accept()
	}
	return c, nil
}

func (f *fakeStreams) Subscribe(r *subscribe.SubscribeRequest, to grpc.ServerStreamingServer[subscribe.Event]) error {
	f.mu.Lock()
	f.requests[r.GetKey()] = append(f.requests[r.GetKey()], r)
	say := f.say
	f.times = append(f.times, time.Now())
	f.streams[r.GetKey()]++
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.streams[r.GetKey()]--
		f.mu.Unlock()
	}()
	return say(r, to)
}

// open is how many streams there are.
func (f *fakeStreams) open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, of := range f.streams {
		n += of
	}
	return n
}

// openFor is how many of them are about a key.
func (f *fakeStreams) openFor(key string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.streams[key]
}

func (f *fakeStreams) asked(key string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.requests[key])
}

// quiet is what a server with nothing to tell says.
func quiet(_ *subscribe.SubscribeRequest, to grpc.ServerStreamingServer[subscribe.Event]) error {
	if err := to.Send(&subscribe.Event{Index: 9, Payload: &subscribe.Event_EndOfSnapshot{EndOfSnapshot: true}}); err != nil {
		return err
	}
	<-to.Context().Done()
	return nil
}

// Whatever is wrong with the streams, what is served comes from queries then, and is right.
func TestWrongEventsAreNotFollowed(t *testing.T) {
	t.Parallel()
	const silence = "does not come"
	for name, test := range map[string]struct {
		say  saying
		says string
	}{
		"an old server":     {refuse(codes.Unimplemented, "unknown service"), "has no event streams"},
		"an unknown topic":  {refuse(codes.Unknown, "unknown topic 7"), "unknown topic 7"},
		"a limit":           {refuse(codes.ResourceExhausted, "rate limit"), "limits event streams"},
		"no reason":         {refuse(codes.OK, ""), "without a reason"},
		"a long reason":     {refuse(codes.Unknown, strings.Repeat("no ", 10000)), "… (Unknown)"},
		"silence":           {send(), silence},
		"an endless start":  {send(event(3, subscribe.CatalogOp_Register, "ghost", modelRow{status: "passing"})), silence},
		"another topic":     {send(&subscribe.Event{Index: 3, Payload: &subscribe.Event_Service{Service: &subscribe.ServiceListUpdate{Name: "api"}}}), "expected shape"},
		"nobody's row":      {send(&subscribe.Event{Index: 3, Payload: &subscribe.Event_ServiceHealth{}}), "expected shape"},
		"a row of no node":  {send(&subscribe.Event{Index: 3, Payload: &subscribe.Event_ServiceHealth{ServiceHealth: &subscribe.ServiceHealthUpdate{CheckServiceNode: &subscribe.CheckServiceNode{Service: &subscribe.NodeService{Id: "x"}}}}}), "expected shape"},
		"an empty envelope": {send(&subscribe.Event{Index: 3}), "expected shape"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, streams := startFake(t), startStreams(t)
			streams.say = func(r *subscribe.SubscribeRequest, to grpc.ServerStreamingServer[subscribe.Event]) error {
				if r.GetKey() != "api" {
					return quiet(r, to)
				}
				return test.say(r, to)
			}
			f.set("/v1/health/service/api", rows(5, "a:passing:80"))
			cfg, out := f.config(), &log{}
			cfg.Follow, cfg.Servers, cfg.Logger = FollowAuto, []string{streams.addr}, out.logger()
			cfg.Limits = impatient()
			if test.says == silence {
				cfg.Limits.Silence = time.Second // others are not silent for as long
			}
			r := run(t, cfg)
			r.store.Need("test", apiHealth)
			r.eventually(instances(apiHealth, facts.Present, "a:passing"))
			if reason := r.polledFor(apiHealth); !strings.Contains(reason, test.says) {
				t.Errorf("it says %q; want %q", reason, test.says)
			}
			f.set("/v1/health/service/api", rows(6, "a:critical:80"))
			r.eventually(instances(apiHealth, facts.Present, "a:critical"))
			r.source.mu.Lock()
			others := len(r.source.polls)
			r.source.mu.Unlock()
			if others != 1 {
				t.Errorf("%d topics are polled; the fault is of one", others)
			}
			n := streams.asked("api")
			r.throughout(instances(apiHealth, facts.Present, "a:critical"))
			if more := streams.asked("api") - n; more > 1 {
				t.Errorf("%d more streams were asked for within %v", more, awhile)
			}
			if said, all := out.lines("events cannot be had"), out.lines("[WARN]"); said != 1 || all != 1 {
				t.Errorf("%d warnings, %d of them about the events; want 1", all, said)
			}
		})
	}
}

// A stream that is lost is resumed where it was, and begins again only when the server says so.
func TestALostStreamIsResumed(t *testing.T) {
	t.Parallel()
	f, streams := startFake(t), startStreams(t)
	cut, requests := make(chan struct{}), make(chan *subscribe.SubscribeRequest, 10)
	streams.say = func(r *subscribe.SubscribeRequest, to grpc.ServerStreamingServer[subscribe.Event]) error {
		if r.GetKey() != "api" {
			return quiet(r, to)
		}
		requests <- r
		switch r.GetIndex() {
		case 0:
			_ = to.Send(event(7, subscribe.CatalogOp_Register, "a", modelRow{status: "passing", node: 5, own: 5, check: 5}))
			_ = to.Send(&subscribe.Event{Index: 9, Payload: &subscribe.Event_EndOfSnapshot{EndOfSnapshot: true}})
		case 9: // resumed, and there is news
			_ = to.Send(event(12, subscribe.CatalogOp_Register, "a", modelRow{status: "critical", node: 5, own: 5, check: 12}))
		case 12: // too old: the snapshot lacks what is still there
			_ = to.Send(&subscribe.Event{Payload: &subscribe.Event_NewSnapshotToFollow{NewSnapshotToFollow: true}})
			_ = to.Send(&subscribe.Event{Index: 14, Payload: &subscribe.Event_EndOfSnapshot{EndOfSnapshot: true}})
		}
		select {
		case <-cut:
			return status.Error(codes.Unavailable, "the server ends")
		case <-to.Context().Done():
			return nil
		}
	}
	f.set("/v1/health/service/api", rows(5, "a:passing:80"))
	cfg := f.config()
	cfg.Follow, cfg.Servers = FollowAuto, []string{streams.addr}
	r := run(t, cfg)
	r.store.Need("test", apiHealth)
	testenv.Eventually(t, soon, func() error { return r.follows(apiHealth, ModeStreaming, streams.addr) })
	if got := (<-requests).GetIndex(); got != 0 {
		t.Errorf("it began at %d", got)
	}
	cut <- struct{}{}
	r.eventually(instances(apiHealth, facts.Present, "a:critical"))
	if got := (<-requests).GetIndex(); got != 9 {
		t.Errorf("it was resumed at %d", got)
	}
	f.set("/v1/health/service/api", rows(12, "a:critical:80"))
	cut <- struct{}{}
	if got := (<-requests).GetIndex(); got != 12 {
		t.Errorf("it was resumed at %d", got)
	}
	r.throughout(func(v facts.View) error { // suspect until the query says that it is there
		if list, state := v.Instances(apiHealth); len(list) != 1 {
			return fmt.Errorf("%d instances, %s", len(list), state)
		}
		return nil
	})
	r.eventually(instances(apiHealth, facts.Present, "a:critical"))
}
