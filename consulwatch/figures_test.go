package consulwatch

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/proto/subscribe"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// registered are the topics of that many services, each with an instance.
func registered(c *testenv.Consul, services int) []facts.Topic {
	var topics []facts.Topic
	for i := range services {
		name := fmt.Sprintf("s%02d", i)
		c.RegisterService(testenv.Service{Name: name, Port: 8000 + i})
		topics = append(topics, facts.Health("dc1", name))
	}
	return topics
}

// What Consul is asked for grows with the services, and not with those who need them. test/figures looks
// at a whole minute without a change.
func TestAllStreamsAreOnOneConnection(t *testing.T) {
	t.Parallel()
	const services = 50
	c := testenv.StartConsul(t)
	topics := registered(c, services)
	for _, clients := range []int{10, 300} {
		t.Run(fmt.Sprintf("%d clients", clients), func(t *testing.T) {
			g := newGate(t, c.RPCAddr())
			g.open()
			asked := &counts{}
			cfg := with(c, "")
			cfg.Servers, cfg.Metrics = []string{g.addr}, asked
			r := run(t, cfg)
			for who := range clients {
				r.store.Need(fmt.Sprintf("proxy-%d", who), topics...)
			}
			for _, topic := range topics {
				testenv.Eventually(t, soon, func() error { return r.follows(topic, ModeStreaming, g.addr) })
			}
			g.mu.Lock()
			accepted := g.accepted
			g.mu.Unlock()
			if accepted != 1 {
				t.Errorf("%d connections", accepted)
			}
			streams := 0
			for _, s := range r.source.Status() {
				if s.Server != "" {
					streams++
				}
			}
			if want := services + 5; streams != want { // the list of services, and four kinds of entries
				t.Errorf("%d streams for %d services; want %d", streams, services, want)
			}
			testenv.Eventually(t, soon, func() error { // events may be followed before the queries that confirm them
				if got := asked.queries(); got < services {
					return fmt.Errorf("%d queries for the instances of %d services; want one for each", got, services)
				}
				return nil
			})
			r.throughout(func(facts.View) error {
				if got := asked.queries(); got != services {
					return fmt.Errorf("%d queries while nothing changes", got-services)
				}
				return nil
			})
		})
	}
}

// counts counts the queries for instances.
type counts struct {
	mu  sync.Mutex
	all int
}

func (c *counts) Query(kind facts.TopicKind, _ string, _ time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if kind == facts.TopicHealth || kind == facts.TopicConnect || kind == facts.TopicProxies {
		c.all++
	}
}

func (c *counts) Event(facts.TopicKind, bool) {}

func (c *counts) queries() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all
}

// relay is an RPC port that counts the snapshots a Consul sends through it.
type relay struct {
	*fakeStreams
	mu        sync.Mutex
	snapshots map[string][]time.Time // when they were asked for, by topic and key
}

// dialed is the event streams of a Consul.
func dialed(t *testing.T, c *testenv.Consul) subscribe.StateChangeSubscriptionClient {
	conn, err := grpc.NewClient("passthrough:///"+c.RPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
			if err == nil {
				_, err = conn.Write([]byte{byteGRPC})
			}
			return conn, err
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return subscribe.NewStateChangeSubscriptionClient(conn)
}

func startRelay(t *testing.T, c *testenv.Consul) *relay {
	r := &relay{fakeStreams: startStreams(t), snapshots: map[string][]time.Time{}}
	to := dialed(t, c)
	r.say = func(req *subscribe.SubscribeRequest, client grpc.ServerStreamingServer[subscribe.Event]) error {
		asked := time.Now()
		server, err := to.Subscribe(client.Context(), req)
		if err != nil {
			return err
		}
		for {
			e, err := server.Recv()
			if err != nil {
				return err // with Consul's own code
			}
			if e.GetEndOfSnapshot() {
				r.note(req, asked)
			}
			if err := client.Send(e); err != nil {
				return err
			}
		}
	}
	return r
}

func (r *relay) note(req *subscribe.SubscribeRequest, asked time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := fmt.Sprint(req.GetTopic(), "/", req.GetNamedSubject().GetKey())
	r.snapshots[key] = append(r.snapshots[key], asked)
}

// took returns when the snapshots after the first were asked for; an error if a watch had more than n in
// all, or one had less.
func (r *relay) took(watches, n int) ([]time.Time, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var later []time.Time
	for key, times := range r.snapshots {
		if len(times) != n {
			return nil, fmt.Errorf("%s had %d snapshots; want %d", key, len(times), n)
		}
		later = append(later, times[1:]...)
	}
	if len(r.snapshots) != watches {
		return nil, fmt.Errorf("%d watches had snapshots; want %d", len(r.snapshots), watches)
	}
	return later, nil
}

// A restore ends all streams in one moment. Consul must not have to make all snapshots in the next one,
// nor any of them twice.
func TestARestoreTakesOneSnapshotOfEachWatch(t *testing.T) {
	t.Parallel()
	const services, watches = 50, 50 + 5
	c := testenv.StartConsul(t)
	topics := registered(c, services)
	through := startRelay(t, c)
	cfg := with(c, "")
	cfg.Servers, cfg.Limits = []string{through.addr}, Limits{}.withDefaults()
	r := run(t, cfg)
	r.store.Need("test", topics...)
	held := func(v facts.View) error {
		for _, topic := range topics {
			if list, state := v.Instances(topic); len(list) != 1 {
				return fmt.Errorf("%s is %s with %d instances", topic, state, len(list))
			}
		}
		return nil
	}
	r.eventually(held)
	testenv.Eventually(t, soon, func() error { _, err := through.took(watches, 1); return err })

	end := r.watchful(held)
	defer end()
	snapshot := t.TempDir() + "/snapshot"
	c.CLI("", "snapshot", "save", snapshot)
	c.CLI("", "snapshot", "restore", snapshot)
	began := time.Now()
	var later []time.Time
	testenv.Eventually(t, soon, func() (err error) { later, err = through.took(watches, 2); return err })
	slices.SortFunc(later, time.Time.Compare)
	spread := later[len(later)-1].Sub(later[0])
	t.Logf("%d watches had one snapshot each within %v, asked for over %v", watches, time.Since(began), spread)
	if spread < 100*time.Millisecond {
		t.Errorf("%d snapshots were asked for within %v; want them spread", len(later), spread)
	}
	r.throughout(func(facts.View) error { _, err := through.took(watches, 2); return err })
}

// troubles are answers of a Consul that cannot answer.
func troubles() map[string]http.HandlerFunc {
	code := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "trouble", code) }
	}
	body := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Consul-Index", "99")
			_, _ = io.WriteString(w, text)
		}
	}
	return map[string]http.HandlerFunc{
		"429": code(429), "503": code(503), "500": code(500), "garbage": body("<html>"), "cut short": body(`[{"Node":`),
		"slow": func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-time.After(500 * time.Millisecond):
			}
			http.Error(w, "late", http.StatusServiceUnavailable)
		},
	}
}

// A Consul in trouble is not asked more often than once per second for a topic, but for the first
// attempts; and nothing is served that is not so.
func TestTroubleIsNotAskedForOften(t *testing.T) {
	t.Parallel()
	const first, looked = 2 * time.Second, 6 * time.Second
	type victim struct {
		*rig
		name   string
		asked  func() int
		before int
	}
	var victims []*victim
	for name, answer := range troubles() {
		for where, prefix := range map[string]string{"one topic": apiPath, "all": "/v1/"} {
			f := startFake(t)
			cfg := f.config()
			cfg.Limits = Limits{}.withDefaults()
			v := &victim{rig: following(t, f, cfg), name: name + " of " + where}
			v.asked = func() int {
				waits, reads := f.count(apiPath)
				return waits + reads
			}
			victims = append(victims, v)
			f.change(func() {
				f.gaveUp = true
				f.fault = func(w http.ResponseWriter, r *http.Request) bool {
					bad := strings.HasPrefix(r.URL.Path, prefix)
					if bad {
						answer(w, r)
					}
					return bad
				}
			})
			v.eventually(failing(apiHealth, true))
			f.change(func() { f.gaveUp = false })
		}
	}
	hold := func(d time.Duration) {
		testenv.Throughout(t, d, func() error {
			for _, v := range victims {
				if err := instances(apiHealth, facts.Present, "a:passing")(v.store.View()); err != nil {
					return fmt.Errorf("%s: %w", v.name, err)
				}
			}
			return nil
		})
	}
	hold(first)
	for _, v := range victims {
		v.before = v.asked()
	}
	hold(looked)
	for _, v := range victims {
		if got, most := v.asked()-v.before, int(looked/time.Second); got > most {
			t.Errorf("%s: asked %d times in %v; want %d at most", v.name, got, looked, most)
		}
	}
}
