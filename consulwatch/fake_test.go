package consulwatch

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
)

// fake is an HTTP API like Consul's, for faults that the real one cannot be made to show. ACLs are
// off. One index counts all changes, and each path remembers the index of its own last change.
type fake struct {
	server *httptest.Server

	mu      sync.Mutex
	changed chan struct{} // closed at each change
	index   uint64
	paths   map[string]page
	backend string                                            // of queries that wait
	fault   func(w http.ResponseWriter, r *http.Request) bool // answers instead, if it returns true
	gaveUp  bool                                              // queries that wait return at once
	header  http.Header                                       // added to answers

	requests map[string]int // by path and whether it waits
	waiting  int
	conns    map[net.Conn]bool
	peak     int // of conns
}

// backendPolling is the backend that answers queries that do not wait.
const backendPolling = "blocking-query"

type page struct {
	body  string
	index uint64
}

func startFake(t *testing.T) *fake {
	f := newFake()
	f.server.Start()
	t.Cleanup(f.server.Close)
	return f
}

func newFake() *fake {
	f := &fake{
		changed: make(chan struct{}), index: 10, paths: map[string]page{}, backend: backendPolling, header: http.Header{},
		requests: map[string]int{}, conns: map[net.Conn]bool{},
	}
	f.server = httptest.NewUnstartedServer(f)
	f.server.Config.ConnState = func(c net.Conn, state http.ConnState) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if state == http.StateClosed {
			delete(f.conns, c)
			return
		}
		f.conns[c] = true
		f.peak = max(f.peak, len(f.conns))
	}
	return f
}

func (f *fake) config() Config {
	return Config{API: &api.Config{Address: f.server.URL}, Datacenter: "dc1", Follow: FollowPoll}
}

// set changes what a path answers.
func (f *fake) set(path, body string) {
	f.change(func() {
		f.index++
		f.paths[path] = page{body: body, index: f.index}
	})
}

// change changes anything and wakes the queries that wait.
func (f *fake) change(how func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	how()
	close(f.changed)
	f.changed = make(chan struct{})
}

// count returns how many requests for a path there were: those that wait, and those that do not.
func (f *fake) count(path string) (waits, reads int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests[path+" waits"], f.requests[path+" reads"]
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	asked, _ := strconv.ParseUint(r.URL.Query().Get("index"), 10, 64)
	kind := " reads"
	if asked > 0 {
		kind = " waits"
	}
	f.mu.Lock()
	f.requests[r.URL.Path+kind]++
	fault := f.fault
	f.mu.Unlock()
	if fault != nil && fault(w, r) {
		return
	}
	if r.URL.Path == "/v1/acl/token/self" {
		http.Error(w, "ACL support disabled", http.StatusUnauthorized)
		return
	}
	if asked > 0 {
		f.await(r, asked)
	}
	f.answer(w, r.URL.Path, asked > 0)
}

// await blocks as Consul does.
func (f *fake) await(r *http.Request, asked uint64) {
	wait, _ := time.ParseDuration(r.URL.Query().Get("wait"))
	timer := time.NewTimer(wait)
	defer timer.Stop()
	f.mu.Lock()
	f.waiting++
	defer func() {
		f.waiting--
		f.mu.Unlock()
	}()
	for f.page(r.URL.Path).index <= asked && !f.gaveUp {
		changed := f.changed
		f.mu.Unlock()
		ended := false
		select {
		case <-changed:
		case <-timer.C:
			ended = true
		case <-r.Context().Done():
			ended = true
		}
		f.mu.Lock()
		if ended {
			return
		}
	}
}

// page returns what a path answers; f.mu is held.
func (f *fake) page(path string) page {
	if p, ok := f.paths[path]; ok {
		return p
	}
	body, ok := map[string]string{
		"/v1/catalog/services": `{"api":[]}`,
		"/v1/connect/ca/roots": `{"TrustDomain":"ab-cd.consul","Roots":[{"ID":"aa:bb","RootCert":"a root","Active":true}]}`,
		"/v1/agent/self":       `{"Config":{"Datacenter":"dc1"},"DebugConfig":{"DefaultIntentionPolicy":"allow"}}`,
	}[path]
	if !ok {
		body = `[]`
	}
	return page{body: body, index: 10}
}

func (f *fake) answer(w http.ResponseWriter, path string, waits bool) {
	f.mu.Lock()
	p, backend := f.page(path), backendPolling
	if waits {
		backend = f.backend
	}
	for k, v := range f.header {
		w.Header()[k] = v
	}
	f.mu.Unlock()
	w.Header().Set("X-Consul-Index", fmt.Sprint(p.index))
	w.Header().Set("X-Consul-Query-Backend", backend)
	fmt.Fprint(w, p.body)
}

// rows is the answer of a health endpoint: instances as id:status:port, all of one ModifyIndex.
func rows(modified uint64, instances ...string) string {
	list := []*api.ServiceEntry{}
	for _, in := range instances {
		part := strings.Split(in, ":")
		port, _ := strconv.Atoi(part[2])
		list = append(list, &api.ServiceEntry{
			Node:    &api.Node{Node: "n1", Address: "127.0.0.1", ModifyIndex: modified},
			Service: &api.AgentService{ID: part[0], Service: "api", Port: port, ModifyIndex: modified},
			Checks:  api.HealthChecks{{Node: "n1", CheckID: "c", ServiceID: part[0], Status: part[1], ModifyIndex: modified}},
		})
	}
	raw, _ := json.Marshal(list)
	return string(raw)
}
