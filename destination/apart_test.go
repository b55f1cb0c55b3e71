package destination

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	pb "github.com/catenary-mesh/catenary/internal/proto/destination"
)

// wantTold wants the messages of endpoints since the last time.
func (q *quiet) wantTold(s *tape[*pb.Update], want ...string) {
	q.t.Helper()
	q.settle()
	list, _ := s.take()
	var got []string
	for _, u := range list {
		got = append(got, text(q.t.(*testing.T), []Step{marshal(u)}))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		q.t.Errorf("told %q, want %q", got, want)
	}
}

// wantHas wants a client to have these endpoints that took in all that it was sent.
func (q *quiet) wantHas(s *tape[*pb.Update], want string) {
	q.t.Helper()
	q.settle()
	var seen Seen
	list, _ := s.take()
	for _, u := range list {
		seen.Apply(u)
	}
	var got []string
	for at := range seen.Endpoints {
		got = append(got, at.String())
	}
	slices.Sort(got)
	if strings.Join(got, " ") != want {
		q.t.Errorf("has %q, want %q", got, want)
	}
}

// TestALargeServiceDelaysNobody blocks the making of one answer: those to other questions are made, first ones and
// later ones, and who asks the same is told when it is there.
func TestALargeServiceDelaysNobody(t *testing.T) {
	inBubble(t, nil, func(q *quiet) {
		q.services("api", "web", "other")
		for i, name := range []string{"api", "web", "other"} {
			q.service(name, list(instance(name, i+1)), nil)
		}
		free := make(chan struct{})
		var blocked atomic.Int64
		resolve := q.hub.resolve
		q.hub.mu.Lock()
		q.hub.resolve = func(s *subject, view facts.View) made {
			if s.question.name.Service == "web" {
				blocked.Add(1)
				<-free
			}
			return resolve(s, view)
		}
		q.hub.mu.Unlock()
		api := q.updates("api.service.consul", "")
		q.wantTold(api, "add 10.0.0.1:8080")
		web, second := q.updates("web.service.consul", ""), q.updates("web.service.consul", "")
		q.wantTold(web)
		other := q.updates("other.service.consul", "")
		q.wantTold(other, "add 10.0.0.3:8080")
		q.entries(&chain.ServiceDefaults{Header: head("unused"), Protocol: "http"})
		q.service("web", list(instance("web", 8)), nil)
		q.service("api", list(instance("api", 7)), nil)
		q.wantTold(api, "add 10.0.0.7:8080", "remove 10.0.0.1:8080")
		if n := blocked.Load(); n != 1 {
			t.Errorf("the answer is made by %d at once", n)
		}
		if got := q.pending(); !strings.Contains(got, "looked up") {
			t.Errorf("who waits for it waits because of %q", got)
		}
		close(free)
		q.wantHas(web, "10.0.0.8:8080")
		q.wantHas(second, "10.0.0.8:8080")
		q.wantTold(api)
	})
}

// TestWhatChangesMeanwhileIsNotLost has a fact change after it was looked at, and before it was noted that it was.
func TestWhatChangesMeanwhileIsNotLost(t *testing.T) {
	inBubble(t, nil, func(q *quiet) {
		q.services("api")
		q.service("api", list(instance("api", 1)), nil)
		resolve := q.hub.resolve
		first := true
		q.hub.mu.Lock()
		q.hub.resolve = func(s *subject, view facts.View) made {
			m := resolve(s, view)
			if first {
				first = false
				q.service("api", list(instance("api", 2)), nil)
				time.Sleep(5 * coalesce)
			}
			return m
		}
		q.hub.mu.Unlock()
		s := q.updates(api, "")
		q.wantHas(s, "10.0.0.2:8080")
		q.hub.mu.Lock()
		defer q.hub.mu.Unlock()
		if len(q.hub.news) > 0 {
			t.Errorf("it is still noted what changed: %v", q.hub.news)
		}
	})
}

// TestEncodingHoldsUpNobodyElse has many encoders of one answer, each of which encodes once.
func TestEncodingHoldsUpNobodyElse(t *testing.T) {
	counts := &counts{}
	s := NewSet(Labels{Service: "api"}, []Endpoint{endpoint("10.0.0.1:1")})
	a := newAnswer(made{Resolution: Resolution{State: Some, Set: s}}, nil, Config{Metrics: counts})
	free, held := make(chan struct{}), make(chan struct{})
	plain := Encoder{}.For(s)
	a.pools[plain] = &once[*Pool]{}
	go a.pools[plain].get(func() *Pool { close(held); <-free; return plain.Encode(s, nil) })
	<-held
	if steps := a.next(&Get{}, Encoder{Conduit: true}); len(steps) != 1 {
		t.Errorf("%d steps", len(steps))
	}
	b := newAnswer(made{Resolution: Resolution{State: Some, Set: s}}, a, Config{Metrics: counts})
	if len(b.last) != 1 {
		t.Errorf("%d pools are known of the answer before", len(b.last))
	}
	close(free)
	if steps := a.next(&Get{}, Encoder{}); len(steps) != 1 {
		t.Errorf("%d steps", len(steps))
	}
	if encoded, _ := counts.get(); encoded != 1 {
		t.Errorf("encoded %d times more", encoded)
	}
}

// TestVerdictsOfProbesCount has an endpoint that probes find down: Linkerd's proxies are told the health that Envoys are.
func TestVerdictsOfProbesCount(t *testing.T) {
	inBubble(t, nil, func(q *quiet) {
		q.services("api")
		q.service("api", list(instance("api", 1), instance("api", 2)), nil)
		s := q.updates(api, "")
		q.wantTold(s, "add 10.0.0.1:8080 10.0.0.2:8080")
		verdicts := func(v facts.Verdicts) {
			q.store.Commit(func(tx *facts.Tx) { tx.Verdicts(facts.VerdictsOf("dc1", "api"), v) })
		}
		verdicts(facts.Verdicts{instanceAddr(2): {}})
		q.wantTold(s, "remove 10.0.0.2:8080")
		verdicts(facts.Verdicts{instanceAddr(1): {}, instanceAddr(2): {}})
		q.wantTold(s, "none exists=true")
		verdicts(facts.Verdicts{instanceAddr(2): {Up: true}})
		q.wantTold(s, "add 10.0.0.1:8080 10.0.0.2:8080")
	})
}

// TestTheZoneOfANode is that of any instance on it that is followed, and proxies hear when it becomes known.
func TestTheZoneOfANode(t *testing.T) {
	inBubble(t, nil, func(q *quiet) {
		zoned := func(in *facts.Instance, zone string) *facts.Instance {
			in.Node.Locality = &facts.Locality{Region: "r", Zone: zone}
			return in
		}
		q.services("api", "web")
		q.service("api", list(zoned(instance("api", 1), "a"), zoned(instance("api", 2), "b")), nil)
		s, other := q.updates(api, `{"nodeName":"N7"}`), q.updates(api, `{"nodeName":"n2"}`)
		is := func(s *tape[*pb.Update], want string) {
			t.Helper()
			q.settle()
			list, _ := s.take()
			var words []string
			for _, u := range list {
				for _, w := range u.GetAdd().GetAddrs() {
					words = append(words, w.GetMetricLabels()["zone_locality"])
				}
			}
			if got := strings.Join(words, " "); got != want {
				t.Errorf("told %q, want %q", got, want)
			}
		}
		is(s, "unknown unknown")
		is(other, "remote local")
		q.service("web", list(zoned(instance("web", 7), "a")), nil)
		is(s, "local remote")
		is(other, "")
		q.service("web", list(zoned(instance("web", 7), "c")), nil)
		is(s, "remote") // the other one was remote before
		is(q.updates(api, `{"nodeName":"n7"}`), "remote remote")
		q.service("web", nil, nil)
		is(s, "unknown unknown")
	})
}

// BenchmarkGetBesideALargeService is how long a first answer takes while the answer of 20,000 instances is made again
// and again.
func BenchmarkGetBesideALargeService(b *testing.B) {
	w := newWorld(b)
	w.services("api", "web")
	w.service("api", list(instance("api", 1)), nil)
	var large []*facts.Instance
	for i := range 20_000 {
		large = append(large, instance("web", i+1))
	}
	w.service("web", large, nil)
	s := serve(b, w, nil)
	watch := newWatcher()
	web, _ := s.hub.join(question{name: Name{Service: "web", Datacenter: "dc1"}}, watch)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			s.hub.mu.Lock()
			web.stale = true
			s.hub.mu.Unlock()
			s.hub.settle(web)
		}
	}()
	b.ReportAllocs()
	for b.Loop() {
		one := newWatcher()
		api, _ := s.hub.join(question{name: Name{Service: "api", Datacenter: "dc1"}}, one)
		if api.answer.Load().State != Some {
			b.Fatal("there is no answer")
		}
		s.hub.leave(api, one)
	}
	close(stop)
	<-done
	s.hub.leave(web, watch)
}

// BenchmarkLargeService is what one flip among 20,000 instances costs, from the fact to the step that is sent.
func BenchmarkLargeService(b *testing.B) {
	w := newWorld(b)
	w.services("api")
	var all []*facts.Instance
	for i := range 20_000 {
		all = append(all, instance("api", i+1))
	}
	w.service("api", all, nil)
	name := Name{Service: "api", Datacenter: "dc1"}
	cfg := Config{Metrics: &counts{}}
	var g Get
	before := newAnswer(made{Resolution: place1().Resolve(w.store.View(), name, "", nil)}, nil, cfg)
	before.next(&g, Encoder{})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		flipped := append([]*facts.Instance(nil), all...)
		if i%2 == 0 {
			flipped[7] = critical(all[7])
		}
		w.service("api", flipped, nil)
		runtime.GC()
		b.StartTimer()
		now := newAnswer(made{Resolution: place1().Resolve(w.store.View(), name, "", nil)}, before, cfg)
		if steps := now.next(&g, Encoder{}); len(steps) != 1 {
			b.Fatalf("%d steps", len(steps))
		}
		before = now
	}
}
