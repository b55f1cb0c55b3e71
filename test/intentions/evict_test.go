package intentions_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// The chosen way: rules come by discovery, and the module ends what they no longer allow.
func tighteningEndsWhatItForbids(t *testing.T, r *rig) {
	tcp, web := r.door("tcp"), r.door("web")
	tcp.openTCP("a", "b")
	web.openHTTP("a", "b")
	load := startLoad(t, web)
	kept := append(tcp.several(t, "a"), web.streams(t, "a")...)

	// Rules that were there before are the hard ones: connections hold the filters of that time.
	for range 2 {
		forbidden := append(tcp.several(t, "b"), web.streams(t, "b")...)
		begin := time.Now()
		tcp.permit("a")
		web.permit("a")
		for _, h := range forbidden {
			if !h.within(limit - time.Since(begin)) {
				t.Errorf("the %s is open after %v", h.name, limit)
			}
		}
		t.Logf("%d ended within %v", len(forbidden), time.Since(begin))
		tcp.turnsAway(t, "b")
		web.caller("b", "h2").awaits(t, 403)
		tcp.permit("a", "b")
		web.permit("a", "b")
		web.caller("b", "h2").awaits(t, 200)
	}
	for _, h := range kept {
		if !h.open() {
			t.Errorf("the %s has ended", h.name)
		}
		if h.echo != nil {
			if err := h.echo(); err != nil {
				t.Error(err)
			}
		}
	}
	load.unharmed(t)
	r.accepted(t)
	r.undrained(t)
}

// The permissions of requests are not judged again one by one: of whoever may do less, what is still there
// after a while ends. Whoever may do as much as before, or more, is left alone, and so is what ends by itself.
func fewerRightsEndLongRequests(t *testing.T, r *rig) {
	d, wider := r.door("web"), r.door("wider")
	d.openHTTP("a")
	d.permitPaths("/a", "/s", "/w")
	wider.openHTTP("a")
	wider.permitPaths("/a", "/s", "/w")
	load := startLoadOf(t, d, "/a")
	untouched := wider.streamsAt(t, "a", "/a")
	streams := d.streamsAt(t, "a", "/a")
	wider.permitPaths("/a", "/s", "/w", "/x")
	begin := time.Now()
	d.permitPaths("/a", "/x")
	for _, h := range streams {
		if !h.within(limit - time.Since(begin)) {
			t.Errorf("the %s is open after %v", h.name, limit)
		}
	}
	t.Logf("%d ended within %v", len(streams), time.Since(begin))
	for _, h := range untouched {
		if !h.open() {
			t.Errorf("the %s has ended", h.name)
		}
	}
	load.unharmed(t)
	r.accepted(t)
	r.undrained(t)
}

// Envoy drops rules a little later than it takes new ones, so the module has to do with several at once.
func manyRulesInARowAreTaken(t *testing.T, r *rig) {
	d := r.door("tcp")
	d.openTCP("a", "b")
	a, b := d.mustConnect(t, "a"), d.mustConnect(t, "b")
	for i := range 200 {
		d.permit("a", "b", fmt.Sprint(i))
	}
	d.permit("a")
	if !b.within(limit) {
		t.Errorf("the %s is open after %v", b.name, limit)
	}
	if err := a.echo(); err != nil {
		t.Error(err)
	}
	r.accepted(t)
	r.undrained(t)
}

// Rules may arrive in any order: whoever is let in by the old ones is found by the new ones.
func aLateHandshakeIsFound(t *testing.T, r *rig) {
	d := r.door("tcp")
	d.openTCP("a", "b")
	d.mustConnect(t, "a")
	raw, err := net.Dial("tcp", d.addr())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	// Envoy has accepted it with the filters of now.
	testenv.Eventually(t, patience, func() error { return d.has(2) })
	d.permit("a")
	d.turnsAway(t, "b")
	begin := time.Now()
	conn := tls.Client(raw, r.ca.client("b"))
	if _, err := io.WriteString(conn, "ping\n"); err != nil {
		t.Logf("the handshake: %v", err)
	}
	if h := hold("late connection of b", conn); !h.within(limit) {
		t.Errorf("it is open after %v", limit)
	}
	t.Logf("it ended after %v", time.Since(begin))
	r.undrained(t)
}

// A listener waits for the rules it is to find, and has nobody in until then.
func withoutRulesNobodyEnters(t *testing.T, r *rig) {
	d := r.door("tcp")
	d.cluster(nil)
	d.listen(nil, chain(downstreamTLS(d.ca), discovered(d.l4(), networkRBAC), tcpProxy(d.name)))
	testenv.Throughout(t, 500*time.Millisecond, func() error {
		if _, err := d.connect("a"); err == nil {
			return errors.New("somebody is served before there are rules")
		}
		return nil
	})
}

// A listener that has given up waiting for its rules has nobody in either.
func afterTheWaitForRulesNobodyEnters(t *testing.T, r *rig) {
	tcp, web := r.door("tcp"), r.door("web")
	tcp.cluster(nil)
	tcp.listen(nil, chain(downstreamTLS(r.ca), impatient(discovered(tcp.l4(), networkRBAC)), tcpProxy(tcp.name)))
	r.set(clusterType, web.name, cluster(web.name, r.web, nil))
	web.listen(nil, chain(downstreamTLS(r.ca, "h2", "http/1.1"), hcm(web.name, impatient(discovered(web.l7(), httpRBAC)))))
	testenv.Eventually(t, patience, func() error {
		conn, err := net.Dial("tcp", tcp.addr()) // it listens
		if err == nil {
			conn.Close()
		}
		return err
	})
	over := []*caller{web.caller("a", "h1"), web.caller("a", "h2")}
	over[0].awaits(t, 500)
	testenv.Throughout(t, 500*time.Millisecond, func() error {
		if _, err := tcp.connect("a"); err == nil {
			return errors.New("a connection is served without rules")
		}
		for _, c := range over {
			if status, _, err := c.get(); err == nil && status != 500 {
				return fmt.Errorf("%s is answered %d without rules", c.service, status)
			}
		}
		return nil
	})
	tcp.permit("a")
	web.permit("a")
	tcp.mustConnect(t, "a")
	over[1].awaits(t, 200)
	r.accepted(t)
}

// Envoy judges a connection when its client sends something. One that sends nothing hears what the service says
// first, and no more.
func whoIsForbiddenAndSaysNothingIsEnded(t *testing.T, r *rig) {
	d := r.door("tcp")
	d.openTCP("a")
	d.mustConnect(t, "a")
	conn, err := d.dial("b")
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if h := hold("silent connection of b", conn); !h.within(limit) {
		t.Errorf("it is open after %v", limit)
	}
	t.Logf("it ended after %v", time.Since(begin))
	quiet, err := d.dial("a")
	if err != nil {
		t.Fatal(err)
	}
	if h := hold("silent connection of a", quiet); h.within(2500 * time.Millisecond) {
		t.Errorf("the %s has ended", h.name)
	}
}

// several opens connections, so that all workers of Envoy have some.
func (d *door) several(t *testing.T, service string) (out []*held) {
	t.Helper()
	for range 8 {
		out = append(out, d.mustConnect(t, service))
	}
	return out
}

func (d *door) streams(t *testing.T, service string) []*held {
	t.Helper()
	return d.streamsAt(t, service, "/")
}

// streamsAt opens what does not end, once a path shows that requests are allowed.
func (d *door) streamsAt(t *testing.T, service, path string) (out []*held) {
	t.Helper()
	for _, protocol := range []string{"h1", "h2"} {
		c := d.caller(service, protocol)
		c.path = path
		c.awaits(t, 200)
		out = append(out, c.stream(t))
	}
	return append(out, d.websocket(t, service))
}

// load is requests of a service that is allowed throughout.
type load struct {
	stop   func()
	done   atomic.Int64
	failed atomic.Int64
	first  atomic.Value
}

func startLoad(t *testing.T, d *door) *load { return startLoadOf(t, d, "/") }

func startLoadOf(t *testing.T, d *door, path string) *load {
	l := &load{}
	ended := make(chan struct{})
	var wg sync.WaitGroup
	for _, protocol := range []string{"h1", "h2"} {
		c := d.caller("a", protocol)
		c.path = path
		c.awaits(t, 200)
		wg.Go(func() { l.run(c, ended) })
	}
	l.stop = sync.OnceFunc(func() { close(ended); wg.Wait() })
	t.Cleanup(l.stop)
	return l
}

func (l *load) run(c *caller, ended chan struct{}) {
	pace := time.NewTicker(5 * time.Millisecond)
	defer pace.Stop()
	for {
		select {
		case <-ended:
			return
		case <-pace.C:
		}
		l.done.Add(1)
		if status, _, err := c.get(); err != nil || status != 200 {
			l.failed.Add(1)
			l.first.CompareAndSwap(nil, result{c.service, status, err})
		}
	}
}

type result struct {
	who    string
	status int
	err    error
}

func (l *load) unharmed(t *testing.T) {
	t.Helper()
	l.stop()
	if l.failed.Load() > 0 || l.done.Load() == 0 {
		t.Errorf("%d of %d requests of an allowed service failed, the first with %+v", l.failed.Load(), l.done.Load(), l.first.Load())
	}
	t.Logf("%d requests of an allowed service, none failed", l.done.Load())
}
