package consulwatch

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/proto/subscribe"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// follows checks how a topic is followed.
func (r *rig) follows(topic facts.Topic, mode Mode, server string) error {
	for _, s := range r.source.Status() {
		if s.Topic == topic && s.Mode == mode && s.Server == server {
			return nil
		}
	}
	return fmt.Errorf("%s is not %s by %q: %+v", topic, mode, server, r.source.Status())
}

// How each topic is followed in Consul 1.22: by an event stream where there is one for it, else by one query.
func TestWhatIsFollowedByEvents(t *testing.T) {
	t.Parallel()
	c := testenv.StartConsul(t)
	c.RegisterService(testenv.Service{Name: "api", Port: 8080})
	through := startRelay(t, c)
	cfg := with(c, "")
	cfg.Servers = []string{through.addr}
	r := run(t, cfg)
	r.store.Need("test", apiHealth, apiConnect, facts.Proxies("dc1", "api"), facts.Gateways("dc1"))
	want := map[string]Mode{
		"health/dc1/api": ModeStreaming, "connect/dc1/api": ModeStreaming, "proxies/dc1/api": ModeStreaming, "services/dc1": ModeStreaming,
		"entries/service-defaults": ModeStreaming, "entries/service-resolver": ModeStreaming,
		"entries/service-intentions": ModeStreaming, "entries/mesh": ModeStreaming,
		"entries/proxy-defaults": ModeBlocking, "entries/service-router": ModeBlocking, "entries/service-splitter": ModeBlocking,
		"roots": ModeBlocking, "gateways/dc1": ModeBlocking, "default-intention": ModeAsking,
	}
	testenv.Eventually(t, soon, func() error {
		got := r.source.Status()
		for _, s := range got {
			if mode := want[s.Topic.String()]; s.Mode != mode {
				return fmt.Errorf("%s is followed by %s; want %q", s.Topic, s.Mode, mode)
			}
		}
		if len(got) != len(want) {
			return fmt.Errorf("%d topics are followed; want %d", len(got), len(want))
		}
		return nil
	})
	r.eventually(all(instances(apiHealth, facts.Present, "api:passing"), instances(apiConnect, facts.Absent)))
	wildcard, named := 0, 0
	through.fakeStreams.mu.Lock()
	for key, requests := range through.requests {
		for _, request := range requests {
			if request.GetWildcardSubject() {
				wildcard++
			}
			if key != "" && request.GetNamedSubject().GetKey() == key {
				named++
			}
		}
	}
	through.fakeStreams.mu.Unlock()
	if wildcard != 5 || named != 3 {
		t.Errorf("%d streams of all of a topic, and %d of one name; want 5 and 3", wildcard, named)
	}
}

// Were one of these accepted, one stream would do for all services. docs/design/events.md says what is refused.
func TestConsulHasNoStreamOfAllHealth(t *testing.T) {
	t.Parallel()
	c := testenv.StartConsul(t)
	on := dialed(t, c)
	for name, request := range map[string]*subscribe.SubscribeRequest{
		"no key":       {Topic: subscribe.Topic_ServiceHealth},
		"an empty key": {Topic: subscribe.Topic_ServiceHealth, Subject: &subscribe.SubscribeRequest_NamedSubject{NamedSubject: &subscribe.NamedSubject{}}},
		"all":          aboutAll(subscribe.Topic_ServiceHealth),
		"all, connect": aboutAll(subscribe.Topic_ServiceHealthConnect),
	} {
		stream, err := on.Subscribe(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		if e, err := stream.Recv(); err == nil {
			t.Errorf("%s: Consul says %v, where it refused", name, e)
		} else if said := err.Error(); !strings.Contains(said, "is required") && !strings.Contains(said, "does not support wildcard") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A topic has one stream, whoever many need it, and none when nobody has for a while.
func TestAStreamIsThereWhileItIsNeeded(t *testing.T) {
	t.Parallel()
	f, streams := startFake(t), startStreams(t)
	streams.say = quiet
	cfg := f.config()
	cfg.Follow, cfg.Servers, cfg.Limits = FollowAuto, []string{streams.addr}, impatient()
	cfg.Limits.Linger = time.Second
	f.set(apiPath, `[]`)
	r := run(t, cfg)
	is := func(want int) func() error {
		return func() error {
			if n := streams.openFor("api"); n != want {
				return fmt.Errorf("%d streams; want %d", n, want)
			}
			return nil
		}
	}
	for i := range 100 {
		r.store.Need(fmt.Sprintf("proxy-%d", i), apiHealth)
	}
	testenv.Eventually(t, soon, func() error { return r.follows(apiHealth, ModeStreaming, streams.addr) })
	for i := range 99 {
		r.store.Need(fmt.Sprintf("proxy-%d", i))
	}
	testenv.Throughout(t, cfg.Limits.Linger+awhile, is(1))
	r.store.Need("proxy-99")
	left := time.Now()
	testenv.Throughout(t, cfg.Limits.Linger/2, is(1))
	testenv.Eventually(t, soon, is(0))
	if took := time.Since(left); took < cfg.Limits.Linger {
		t.Errorf("it ended %v after the last need of it; want %v", took, cfg.Limits.Linger)
	}
	if n := streams.asked("api"); n != 1 {
		t.Errorf("%d streams were asked for", n)
	}
	if linger := (Limits{}).withDefaults().Linger; linger != time.Minute {
		t.Errorf("by default it is there for %v more", linger)
	}
}

// When a server is lost its streams go to the next, and not all in one moment.
func TestTheStreamsOfALostServerGoToTheNext(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	cfg := f.config()
	cfg.Follow, cfg.Limits = FollowAuto, Limits{}.withDefaults()
	servers := []*fakeStreams{startStreams(t), startStreams(t)}
	for _, s := range servers {
		s.say = send(ended(11))
		cfg.Servers = append(cfg.Servers, s.addr)
	}
	var topics []facts.Topic
	for i := range 60 {
		topics = append(topics, facts.Health("dc1", fmt.Sprintf("s%d", i)))
	}
	r := run(t, cfg)
	r.store.Need("test", topics...)
	every := len(topics) + 5
	testenv.Eventually(t, soon, func() error {
		if n := servers[0].open() + servers[1].open(); n != every {
			return fmt.Errorf("%d streams of %d", n, every)
		}
		return nil
	})
	lost, next := servers[0], servers[1]
	if next.open() > 0 {
		lost, next = next, lost
	}
	lost.stop()
	testenv.Eventually(t, soon, func() error {
		if n := next.open(); n != every {
			return fmt.Errorf("%d streams of %d are on the next server", n, every)
		}
		return nil
	})
	next.mu.Lock()
	defer next.mu.Unlock()
	asked := len(next.times)
	spread := next.times[asked-1].Sub(next.times[0])
	if t.Logf("%d streams were asked for over %v", asked, spread); asked != every || spread < 250*time.Millisecond {
		t.Errorf("%d streams were asked for within %v; want each of %d once, and spread", asked, spread, every)
	}
}

// A topic that events were refused for has them again by itself when they can be had; meanwhile others have
// theirs.
func TestATopicGoesBackToEvents(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]saying{
		"an old server": refuse(codes.Unimplemented, "unknown service"),
		"a reset":       refuse(codes.Internal, "stream terminated by RST_STREAM"),
		"a refusal":     refuse(codes.Unknown, "unknown topic"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, streams, out := startFake(t), startStreams(t), &log{}
			streams.say = func(r *subscribe.SubscribeRequest, to grpc.ServerStreamingServer[subscribe.Event]) error {
				if r.GetKey() == "api" {
					return refusal(r, to)
				}
				return quiet(r, to)
			}
			f.set(apiPath, rows(5, "a:passing:80"))
			cfg := f.config()
			cfg.Follow, cfg.Servers, cfg.Logger = FollowAuto, []string{streams.addr}, out.logger()
			r := run(t, cfg)
			r.store.Need("test", apiHealth)
			r.polledFor(apiHealth)
			r.eventually(instances(apiHealth, facts.Present, "a:passing"))
			testenv.Eventually(t, soon, func() error { return r.follows(apiHealth, ModeBlocking, "") })
			testenv.Eventually(t, soon, func() error { return r.follows(facts.Services("dc1"), ModeStreaming, streams.addr) })
			streams.mu.Lock()
			streams.say = func(r *subscribe.SubscribeRequest, to grpc.ServerStreamingServer[subscribe.Event]) error {
				if r.GetKey() == "api" && r.GetIndex() == 0 {
					_ = to.Send(event(20, subscribe.CatalogOp_Register, "a", modelRow{status: "warning", node: 5, own: 5, check: 20}))
					_ = to.Send(ended(20))
				}
				return quiet(r, to)
			}
			streams.mu.Unlock()
			end := r.watchful(func(v facts.View) error {
				if list, state := v.Instances(apiHealth); len(list) != 1 {
					return fmt.Errorf("%d instances, %s", len(list), state)
				}
				return nil
			})
			testenv.Eventually(t, soon, func() error { return r.follows(apiHealth, ModeStreaming, streams.addr) })
			r.eventually(instances(apiHealth, facts.Present, "a:warning"))
			end()
			if said, over := out.lines("events cannot be had"), out.lines("by them again"); said != 1 || over != 1 {
				t.Errorf("%d lines that there are no events, and %d that there are again", said, over)
			}
		})
	}
}
