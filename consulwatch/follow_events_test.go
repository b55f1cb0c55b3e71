package consulwatch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/proto/subscribe"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// A server that cannot be reached for a while is one line in the log, and its return another, however many
// topics and attempts there are.
func TestAServerThatIsAwayIsLoggedOnce(t *testing.T) {
	t.Parallel()
	c := testenv.StartConsul(t)
	topics := registered(c, 20)
	g, out := newGate(t, c.RPCAddr()), &log{}
	cfg := with(c, "")
	cfg.Servers, cfg.Logger = []string{g.addr}, out.logger()
	r := run(t, cfg)
	r.store.Need("test", topics...)
	r.ready("dc1")
	for round := range 3 {
		for _, topic := range topics {
			if reason := r.polledFor(topic); !strings.Contains(reason, g.addr) {
				t.Errorf("reason %q", reason)
			}
		}
		r.throughout(func(facts.View) error { return nil }) // attempts fail meanwhile
		if got := out.lines("[WARN]"); got != round+1 {
			t.Fatalf("%d warnings of %d times that the server was away", got, round+1)
		}
		g.open()
		testenv.Eventually(t, soon, func() error {
			if got := out.lines("followed by them again"); got != round+1 {
				return fmt.Errorf("%d lines that it is over", got)
			}
			return nil
		})
		for _, topic := range topics {
			if err := r.follows(topic, ModeStreaming, g.addr); err != nil {
				t.Errorf("it is said to be over: %v", err)
			}
		}
		g.shut()
	}
}

// onLine calls a function with what is logged.
type onLine func(line string)

func (f onLine) Write(line []byte) (int, error) {
	f(string(line))
	return len(line), nil
}

// What is refused is asked for again when the token is another, and not only after the pause that refusals
// have come to; also when the token becomes another just then.
func TestAnotherTokenIsWorthAnotherStream(t *testing.T) {
	t.Parallel()
	for name, justThen := range map[string]bool{"later": false, "just then": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, streams := startFake(t), startStreams(t)
			streams.say = func(r *subscribe.SubscribeRequest, to grpc.ServerStreamingServer[subscribe.Event]) error {
				if r.GetToken() != "good" && r.GetKey() == "api" {
					return status.Error(codes.PermissionDenied, "not with this token")
				}
				return quiet(r, to)
			}
			file := filepath.Join(t.TempDir(), "token")
			write := func(token string) {
				if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
					t.Error(err)
				}
			}
			write("bad")
			var source atomic.Pointer[Source]
			cfg := f.config()
			cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: onLine(func(line string) {
				if justThen && strings.Contains(line, "events cannot be had") {
					write("good")
					if changed, err := source.Load().reloadToken(); err != nil || !changed {
						t.Errorf("the token is another: %t, %v", changed, err)
					}
				}
			})})
			cfg.API = &api.Config{Address: f.server.URL, TokenFile: file}
			cfg.Follow, cfg.Servers = FollowAuto, []string{streams.addr}
			r := run(t, cfg)
			source.Store(r.source)
			r.store.Need("test", apiHealth)
			if !justThen {
				if reason := r.polledFor(apiHealth); !strings.Contains(reason, "not with this token") || strings.Contains(reason, "api") {
					t.Errorf("reason %q", reason)
				}
				write("good")
				if err := r.source.Reload(); err != nil {
					t.Fatal(err)
				}
			}
			testenv.Eventually(t, refusedMin-time.Second, func() error { return r.follows(apiHealth, ModeStreaming, streams.addr) })
		})
	}
}

// A server that is behind the others sends what is gone, and how it came and went. None of it counts.
func TestAServerThatIsBehindBringsNothingBack(t *testing.T) {
	t.Parallel()
	f, streams := startFake(t), startStreams(t)
	next, behind := make(chan struct{}), make(chan struct{})
	old := modelRow{status: "passing", node: 3, own: 3, check: 3}
	streams.say = func(r *subscribe.SubscribeRequest, to grpc.ServerStreamingServer[subscribe.Event]) error {
		if r.GetKey() != "api" {
			return quiet(r, to)
		}
		if r.GetIndex() == 0 { // the first, which has it all
			_ = to.Send(event(30, subscribe.CatalogOp_Register, "b", modelRow{status: "passing", node: 5, own: 5, check: 5}))
			_ = to.Send(ended(30))
			<-next
			return status.Error(codes.Unavailable, "the server ends")
		}
		for _, e := range []*subscribe.Event{
			newSnapshot(), event(4, subscribe.CatalogOp_Register, "a", old), ended(4),
		} {
			_ = to.Send(e)
		}
		<-behind
		for _, e := range []*subscribe.Event{
			event(5, subscribe.CatalogOp_Register, "b", modelRow{status: "critical", node: 5, own: 5, check: 5}),
			event(6, subscribe.CatalogOp_Register, "c", modelRow{status: "passing", node: 6, own: 6, check: 6}),
			event(29, subscribe.CatalogOp_Deregister, "a", modelRow{}), event(30, subscribe.CatalogOp_Deregister, "c", modelRow{}),
			event(31, subscribe.CatalogOp_Register, "b", modelRow{status: "warning", node: 5, own: 5, check: 31}),
		} {
			_ = to.Send(e)
		}
		<-to.Context().Done()
		return nil
	}
	f.set(apiPath, rows(5, "b:passing:80"))
	cfg := f.config()
	cfg.Follow, cfg.Servers = FollowAuto, []string{streams.addr}
	r := run(t, cfg)
	r.store.Need("test", apiHealth)
	testenv.Eventually(t, soon, func() error { return r.follows(apiHealth, ModeStreaming, streams.addr) })
	end := r.watchful(func(v facts.View) error {
		if list, state := v.Instances(apiHealth); len(list) != 1 || list[0].Service.ID != "b" {
			return fmt.Errorf("%d instances, %s", len(list), state)
		}
		return nil
	})
	defer end()
	f.change(func() { f.index = 30 })
	f.set(apiPath, rows(5, "b:passing:80")) // at 31: the answer is ahead of the events
	_, reads := f.count(apiPath)
	next <- struct{}{}
	testenv.Eventually(t, soon, func() error { // whether it was Consul that went back
		if _, now := f.count(apiPath); now == reads {
			return fmt.Errorf("read %d times", now)
		}
		return nil
	})
	r.throughout(instances(apiHealth, facts.Present, "b:passing"))
	f.change(func() { f.paths[apiPath] = page{body: f.paths[apiPath].body, index: 30} })
	close(behind)
	r.throughout(instances(apiHealth, facts.Present, "b:passing"))
}

// An answer that says that something is hidden is an alarm even when all that was known is there: what comes
// later may be hidden, too. Only another answer ends it.
func TestWhatIsHiddenIsAnAlarmAlsoWhenNothingIsMissing(t *testing.T) {
	t.Parallel()
	for _, how := range []Follow{FollowStream, FollowPoll} {
		t.Run(string(how), func(t *testing.T) {
			t.Parallel()
			f, streams := startFake(t), startStreams(t)
			cut := make(chan struct{})
			streams.say = func(r *subscribe.SubscribeRequest, to grpc.ServerStreamingServer[subscribe.Event]) error {
				_ = to.Send(ended(11))
				select {
				case <-cut:
					return status.Error(codes.Aborted, "ACL change occurred")
				case <-to.Context().Done():
					return nil
				}
			}
			f.set(apiPath, rows(0))
			cfg := f.config()
			cfg.Follow, cfg.Servers, cfg.Limits = how, []string{streams.addr}, impatient()
			cfg.Limits.Wait = time.Second // no query that waits is told of rights
			r := run(t, cfg)
			r.store.Need("test", apiHealth)
			r.ready("dc1")
			r.eventually(instances(apiHealth, facts.Absent))
			r.calm()
			for range 2 {
				f.change(func() { f.header.Set("X-Consul-Results-Filtered-By-ACLs", "true") })
				if how == FollowStream {
					for range streams.open() {
						cut <- struct{}{}
					}
				}
				r.alarmed(CodeHidden)
				testenv.Eventually(t, soon, func() error { return r.hides(apiHealth) })
				testenv.Throughout(t, awhile, func() error { return r.hides(apiHealth) })
				f.change(func() { f.header.Del("X-Consul-Results-Filtered-By-ACLs") })
				r.calm()
				r.eventually(instances(apiHealth, facts.Absent))
			}
		})
	}
}

// hides returns an error unless it is said that something of a topic may be hidden.
func (r *rig) hides(topic facts.Topic) error {
	for _, s := range r.source.Status() {
		if s.Topic == topic && s.Hidden != "" {
			return nil
		}
	}
	return fmt.Errorf("nothing of %s is said to be hidden", topic)
}

// An instance that speaks the mesh protocol itself, and came after the topic was read, is looked at from time
// to time as any other: that it does so no more, no event tells.
func TestAnInstanceThatLeavesTheMeshIsNoticed(t *testing.T) {
	t.Parallel()
	c := testenv.StartConsul(t)
	cfg := with(c, "")
	cfg.Limits = impatient()
	cfg.Limits.Wait = 2 * time.Second
	r := run(t, cfg)
	r.store.Need("test", apiConnect)
	testenv.Eventually(t, soon, func() error { return r.follows(apiConnect, ModeStreaming, c.RPCAddr()) })
	r.eventually(instances(apiConnect, facts.Absent))
	register := func(native bool) {
		c.Register(&api.CatalogRegistration{Node: "node-1", Address: "127.0.0.1", Service: &api.AgentService{
			ID: "api", Service: "api", Port: 8080, Connect: &api.AgentServiceConnect{Native: native},
		}})
	}
	register(true)
	r.eventually(instances(apiConnect, facts.Present, "api:passing"))
	register(false)
	begin := time.Now()
	r.eventually(instances(apiConnect, facts.Absent))
	if took := time.Since(begin); took > generous*cfg.Limits.Wait {
		t.Errorf("it took %v, with a sweep every %v", took, cfg.Limits.Wait)
	}
}

// Where there are to be events alone, their want is one line, too, and queries that are answered are no end of it.
func TestEventsAloneThatAreRefusedAreLoggedOnce(t *testing.T) {
	t.Parallel()
	f, streams, out := startFake(t), startStreams(t), &log{}
	streams.say = refuse(codes.ResourceExhausted, "rate limit")
	f.set(apiPath, rows(5, "a:passing:80"))
	cfg := f.config()
	cfg.Follow, cfg.Servers, cfg.Logger = FollowStream, []string{streams.addr}, out.logger()
	r := run(t, cfg)
	r.store.Need("test", apiHealth)
	begun := 0
	testenv.Eventually(t, soon, func() error {
		if begun = streams.asked("api"); begun < 12 {
			return fmt.Errorf("%d streams were asked for", begun)
		}
		return nil
	})
	r.eventually(all(instances(apiHealth, facts.Present, "a:passing"), failing(apiHealth, true)))
	if warned, over := out.lines("[WARN]"), out.lines("answers again")+out.lines("by them again"); warned != 1 || over != 0 {
		t.Errorf("%d warnings, and %d lines that it is over", warned, over)
	}
	streams.mu.Lock()
	streams.say = quiet
	streams.mu.Unlock()
	f.set(apiPath, rows(0))
	testenv.Eventually(t, soon, func() error { return r.follows(apiHealth, ModeStreaming, streams.addr) })
	r.calm()
}
