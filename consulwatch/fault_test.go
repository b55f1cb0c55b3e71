package consulwatch

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

const apiPath = "/v1/health/service/api"

// log is a log that can be read while it is written.
type log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// lines returns how many lines have the text.
func (l *log) lines(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for line := range strings.Lines(l.buf.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

func (l *log) logger() hclog.Logger { return hclog.New(&hclog.LoggerOptions{Output: l}) }

// following starts a source on a fake with one instance of api, and waits until it is known and
// waited for.
func following(t *testing.T, f *fake, cfg Config) *rig {
	t.Helper()
	f.set(apiPath, rows(11, "a:passing:1"))
	r := run(t, cfg)
	r.store.Need("test", apiHealth)
	r.ready("dc1")
	r.eventually(instances(apiHealth, facts.Present, "a:passing"))
	r.settled(f)
	return r
}

// settled waits until a query waits for each topic that is followed.
func (r *rig) settled(f *fake) {
	r.Helper()
	testenv.Eventually(r.T, soon, func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		want := 0
		for _, s := range r.source.Status() {
			if s.Topic.Kind != facts.TopicDefaultIntention { // which is asked for from time to time
				want++
			}
		}
		if f.waiting < want {
			return fmt.Errorf("%d of %d queries wait", f.waiting, want)
		}
		return nil
	})
}

func TestFaultyAnswersTakeNothingAway(t *testing.T) {
	t.Parallel()
	status := func(code int, text string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { http.Error(w, text, code) }
	}
	body := func(text string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set("X-Consul-Index", "99")
			fmt.Fprint(w, text)
		}
	}
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter)
		reason string // part of the failure
	}{
		"429":           {status(429, "Your IP is issuing too many concurrent connections"), "answered 429"},
		"503":           {status(503, "overloaded"), "not available"},
		"no leader":     {status(500, "No cluster leader"), "not available"},
		"500":           {status(500, "rpc error"), "answered 500 (rpc error)"},
		"403":           {status(403, "Permission denied"), "the token needs"},
		"unknown token": {status(403, "ACL not found"), "does not exist"},
		"not JSON":      {body("<html>"), "not JSON"},
		"cut short":     {body(`[{"Node":`), "cannot be reached"},
		"another shape": {body(`{"a":1}`), "shape"},
		"rows of nulls": {body(`[null]`), "no node"},
		"no index":      {func(w http.ResponseWriter) { fmt.Fprint(w, `[]`) }, "no X-Consul-Index"},
		"hang-up":       {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, "cannot be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, out := startFake(t), &log{}
			cfg := f.config()
			cfg.Logger = out.logger()
			r := following(t, f, cfg)
			f.change(func() {
				f.gaveUp = true
				f.fault = func(w http.ResponseWriter, r *http.Request) bool {
					if r.URL.Path == apiPath {
						c.answer(w)
					}
					return r.URL.Path == apiPath
				}
			})
			r.eventually(func(v facts.View) error {
				if got := v.Topic(apiHealth).Failure; !strings.Contains(got, c.reason) {
					return fmt.Errorf("the failure is %q, and does not say %q", got, c.reason)
				}
				return nil
			})
			f.change(func() { f.gaveUp = false })
			r.throughout(all(instances(apiHealth, facts.Present, "a:passing"), serviceIs("dc1", "api", facts.Present)))
			f.change(func() { f.fault = nil })
			f.set(apiPath, rows(12, "a:critical:1"))
			r.eventually(all(instances(apiHealth, facts.Present, "a:critical"), failing(apiHealth, false)))
		})
	}
}

func TestAFailureIsLoggedOnce(t *testing.T) {
	t.Parallel()
	f, out := startFake(t), &log{}
	cfg := f.config()
	cfg.Logger = out.logger()
	fail := func(text string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			http.Error(w, text, 500)
			return true
		}
	}
	f.fault = fail("No cluster leader")
	r := run(t, cfg)
	tried := func(path string, times int) {
		t.Helper()
		_, before := f.count(path)
		testenv.Eventually(t, soon, func() error {
			if _, reads := f.count(path); reads < before+times {
				return fmt.Errorf("%d attempts", reads)
			}
			return nil
		})
	}
	tried("/v1/config/service-router", 4)
	if got := out.lines("[WARN]"); got != 1 {
		t.Errorf("%d warnings for one outage of six topics", got)
	}
	f.change(func() { f.fault = nil })
	r.ready("dc1")
	if got := out.lines("Consul answers again"); got != 1 {
		t.Errorf("%d lines that Consul answers", got)
	}
	r.store.Need("test", apiHealth)
	f.change(func() {
		f.fault = func(w http.ResponseWriter, r *http.Request) bool {
			return r.URL.Path == apiPath && fail("broken")(w, r)
		}
	})
	f.set(apiPath, rows(12))
	tried(apiPath, 4)
	if got := out.lines("[WARN]"); got != 2 {
		t.Errorf("%d warnings after one topic failed", got)
	}
}

func TestOneChangeCostsOneQuery(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	r := following(t, f, f.config())
	waits, reads := f.count(apiPath)
	f.set(apiPath, rows(12, "a:critical:1"))
	r.eventually(instances(apiHealth, facts.Present, "a:critical"))
	r.settled(f)
	if w, n := f.count(apiPath); w != waits+1 || n != reads {
		t.Errorf("a flip cost %d waiting queries and %d others; want 1 and 0", w-waits, n-reads)
	}

	waits, reads = f.count(apiPath)
	f.set(apiPath, rows(0))
	r.eventually(instances(apiHealth, facts.Absent))
	r.settled(f)
	if w, n := f.count(apiPath); w != waits+1 || n != reads+1 {
		t.Errorf("a removal cost %d waiting queries and %d others; want 1 and 1", w-waits, n-reads)
	}
}

func TestWakingForNothingChangesNothing(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	r := following(t, f, f.config())
	sub := r.store.Subscribe()
	defer sub.Close()
	waits, _ := f.count(apiPath)
	for n := range 3 {
		f.set(apiPath, rows(uint64(20+n), "a:passing:1"))
		r.settled(f)
	}
	testenv.Eventually(t, soon, func() error {
		if w, _ := f.count(apiPath); w == waits {
			return fmt.Errorf("not woken")
		}
		return nil
	})
	if _, ids := sub.Drain(); len(ids) > 0 {
		t.Errorf("changed: %v", ids)
	}
}

func TestAHiddenInstanceIsKeptUntilItIsKnownToBeGone(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	r := following(t, f, f.config())
	f.change(func() { f.header.Set("X-Consul-Results-Filtered-By-ACLs", "true") })
	f.set(apiPath, rows(0))
	r.eventually(instances(apiHealth, facts.Suspect, "a:passing"))
	r.throughout(instances(apiHealth, facts.Suspect, "a:passing"))
	for _, s := range r.source.Status() {
		if s.Topic == apiHealth && !strings.Contains(s.Hidden, "hides results") {
			t.Errorf("status: %+v", s)
		}
	}
	f.change(func() { f.header.Del("X-Consul-Results-Filtered-By-ACLs") })
	r.eventually(instances(apiHealth, facts.Absent))
}

func TestAnIndexThatGoesBackIsARestore(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.index = 100
	r := following(t, f, f.config())
	f.change(func() { // as the real one does it: a query that waits is given up, at the old index
		f.paths[apiPath] = page{body: rows(3, "a:passing:2"), index: 3}
		f.gaveUp = true
	})
	r.eventually(func(v facts.View) error {
		if list, _ := v.Instances(apiHealth); list[0].Service.Port != 2 {
			return fmt.Errorf("port %d", list[0].Service.Port)
		}
		return nil
	})
	f.change(func() { f.gaveUp = false })
	r.ready("dc1")
}

func TestEverythingIsReadAgainWhenOneQueryIsGivenUp(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	r := following(t, f, f.config())
	_, before := f.count(apiPath)
	f.change(func() { // this path sleeps through the restore, as the streaming backend does
		f.paths[apiPath] = page{body: rows(3, "a:warning:2"), index: 3}
		f.fault = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/v1/config/proxy-defaults" || r.URL.Query().Get("index") == "" {
				return false
			}
			f.answer(w, r.URL.Path, true)
			return true
		}
		f.paths["/v1/config/proxy-defaults"] = page{body: `[]`, index: f.index}
		f.index++
	})
	r.eventually(instances(apiHealth, facts.Present, "a:warning"))
	if _, reads := f.count(apiPath); reads != before+1 {
		t.Errorf("the topic was read %d times", reads-before)
	}
}

func TestAnotherBackendMeansReadingAgain(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	r := following(t, f, f.config())
	f.set(apiPath, rows(12, "a:critical:1"))
	r.eventually(instances(apiHealth, facts.Present, "a:critical"))
	r.settled(f)
	_, before := f.count(apiPath)
	f.change(func() { f.backend = "streaming" })
	f.set(apiPath, rows(13, "a:warning:1"))
	r.eventually(instances(apiHealth, facts.Present, "a:warning"))
	if _, reads := f.count(apiPath); reads != before+1 {
		t.Errorf("the topic was read %d times", reads-before)
	}
}

func TestAnEntryThatCannotBeDecodedKeepsItsLastForm(t *testing.T) {
	t.Parallel()
	const path = "/v1/config/service-splitter"
	splitters := facts.Entries(chain.KindServiceSplitter)
	f := startFake(t)
	f.set(path, `[{"Kind":"service-splitter","Name":"api","Splits":[{"Weight":100}],"ModifyIndex":5}]`)
	r := following(t, f, f.config())
	held := entryIs(chain.KindServiceSplitter, "api", facts.Present)
	r.eventually(held)
	f.set(path, `[{"Kind":"service-splitter","Name":"api","Splits":"none","ModifyIndex":6},
		{"Kind":"service-splitter","Name":"web","Splits":[{"Weight":100}],"ModifyIndex":6}]`)
	r.eventually(all(held, entryIs(chain.KindServiceSplitter, "web", facts.Present), failing(splitters, true)))
	r.throughout(all(held, entryIs(chain.KindServiceSplitter, "none", facts.Absent)))
	f.set(path, `[]`)
	r.eventually(all(entryIs(chain.KindServiceSplitter, "api", facts.Absent), failing(splitters, false)))

	f = startFake(t)
	f.set(path, `[{"Kind":"service-splitter","Name":"api","Splits":"none","ModifyIndex":6}]`)
	r = run(t, f.config())
	r.eventually(failing(splitters, true))
	r.throughout(entryIs(chain.KindServiceSplitter, "api", facts.Unknown))
}

// need makes the source follow many services.
func need(r *rig, n int) []facts.Topic {
	var topics []facts.Topic
	for i := range n {
		topics = append(topics, facts.Health("dc1", fmt.Sprintf("s%d", i)))
	}
	r.store.Need("many", topics...)
	r.eventually(func(v facts.View) error {
		for _, topic := range topics {
			if s := v.Topic(topic); !s.Read {
				return fmt.Errorf("%s is not read: %s", topic, s.Failure)
			}
		}
		return nil
	})
	return topics
}

func TestManyTopicsTakeTurnsOnFewConnections(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	cfg := f.config()
	cfg.Limits = impatient()
	cfg.Limits.Connections, cfg.Limits.Turn = 20, 100*time.Millisecond
	r := run(t, cfg)
	topics := need(r, 40)
	for i := range topics {
		f.set(fmt.Sprintf("/v1/health/service/s%d", i), rows(50, "a:warning:1"))
	}
	r.eventually(func(v facts.View) error {
		for _, topic := range topics {
			if err := instances(topic, facts.Present, "a:warning")(v); err != nil {
				return err
			}
		}
		return nil
	})
	turns := 0
	for _, s := range r.source.Status() {
		if s.Mode == ModeTurns {
			turns++
		}
	}
	if turns == 0 {
		t.Error("no topic takes turns")
	}
	f.mu.Lock()
	if f.peak > 20 {
		t.Errorf("there were %d connections", f.peak)
	}
	f.mu.Unlock()

	r.store.Need("many", topics[:4]...)
	if got := r.source.Status(); len(got) < len(topics) {
		t.Errorf("%d topics are followed while they linger", len(got))
	}
}

func TestManyTopicsShareAConnectionOverHTTP2(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.server.EnableHTTP2 = true
	f.server.StartTLS()
	t.Cleanup(f.server.Close)
	cfg := f.config()
	cfg.API.TLSConfig.InsecureSkipVerify = true
	cfg.Limits = impatient()
	cfg.Limits.Connections = 20
	r := run(t, cfg)
	need(r, 400)
	r.settled(f)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.peak > 40 || f.waiting < 406 {
		t.Errorf("%d queries wait, on up to %d connections", f.waiting, f.peak)
	}
}
