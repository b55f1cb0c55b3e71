package xds_test

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
	"github.com/catenary-mesh/catenary/xds/session"
)

// leaves runs something, first to warm up, and then holds what it leaves to what there was before, but for
// the room that maps keep.
func (c *control) leaves(slack int, f func(round int)) {
	c.t.Helper()
	sizes := c.sizes()
	f(0)
	before := c.base(sizes)
	f(1)
	if grown := c.base(sizes) - before; grown > slack {
		c.t.Errorf("the heap grew by %d bytes", grown)
	}
}

// sizes are what a server and its store keep.
func (c *control) sizes() map[string]int {
	topics, _ := c.store.Needs()
	sizes := c.server.Sizes()
	sizes["needs"] = len(topics)
	return sizes
}

// base waits until there is no more than there was, and returns the heap.
func (c *control) base(want map[string]int) int {
	c.t.Helper()
	testenv.Eventually(c.t, time.Minute, func() error {
		if sizes := c.sizes(); !maps.Equal(sizes, want) {
			return fmt.Errorf("kept are %v, want %v", sizes, want)
		}
		return nil
	})
	return heap()
}

// TestTenThousandNamesAskedForAndDroppedLeaveNothing has streams that stay ask for names of each type.
func TestTenThousandNamesAskedForAndDroppedLeaveNothing(t *testing.T) {
	const streams, chunks, chunk = 4, 10, 250
	urls := []string{session.EndpointURL, session.RouteURL, session.ClusterURL, session.SecretURL}
	forms(t, func(t *testing.T, sotw bool) {
		c := startControl(t, nil)
		c.market(3)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var wires []wire
		for i := range streams {
			w, err := openWire(ctx, c.dial(), sotw)
			if err != nil {
				t.Fatal(err)
			}
			cl := callerOf(t, fmt.Sprintf("web-%d", i), sotw, "s0", "s1")
			if err := w.send(message{node: cl.node, url: session.ListenerURL}); err != nil {
				t.Fatal(err)
			}
			if _, err := w.reply(); err != nil {
				t.Fatal(err)
			}
			wires = append(wires, w)
		}
		c.leaves(512<<10, func(round int) {
			var all sync.WaitGroup
			for i, w := range wires {
				all.Go(func() {
					d := dropper{wire: w, url: urls[i%len(urls)], sotw: sotw}
					for n := range chunks {
						if err := d.chunk(fmt.Sprintf("r%d-%d-%d", round, i, n), chunk); err != nil {
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
		})
		cancel()
		c.forgotten()
	})
}

// dropper asks for names and drops them.
type dropper struct {
	wire
	url, nonce string
	sotw       bool
}

// chunk asks for n names, waits until it is told what is there, and drops them.
func (d *dropper) chunk(prefix string, n int) error {
	names := []string{"first"}
	for i := range n {
		names = append(names, fmt.Sprintf("%s-%d.default.dc1.internal.catenary.local", prefix, i))
	}
	// In the state of the world nobody says of a route that it does not exist; of a cluster that is there
	// a full set follows each change.
	silent := d.sotw && (d.url == session.RouteURL || d.url == session.SecretURL)
	if err := d.send(message{url: d.url, nonce: d.nonce, names: names, add: names}); err != nil {
		return err
	}
	if silent {
		return d.send(message{url: d.url, names: names[:1]})
	}
	r, err := d.reply()
	if err != nil {
		return err
	}
	d.nonce = r.nonce
	ack := message{url: d.url, nonce: r.nonce, info: r.version, names: names[:1]}
	if err := d.send(ack); err != nil || d.sotw {
		return err
	}
	return d.send(message{url: d.url, drop: names})
}

// TestStreamsThatEndedAreNotKept looks for streams that something still refers to, while many others last.
func TestStreamsThatEndedAreNotKept(t *testing.T) {
	forms(t, func(t *testing.T, sotw bool) {
		const last, leave = 400, 40
		c := startControl(t, nil)
		names := c.market(1)
		crowd := func(n int) (callers []*caller) {
			for i := range n {
				callers = append(callers, callerOf(t, fmt.Sprintf("web-%d", i), sotw, names...))
			}
			return callers
		}
		endOthers := c.calls(crowd(last)...)
		c.synced(last, xds.StateSynced)
		others := c.server.Remains()
		end := c.calls(crowd(leave)...)
		c.synced(last+leave, xds.StateSynced)
		all := c.server.Remains()
		remain := func() int { return all() - others() }
		end()
		testenv.Eventually(t, 10*time.Second, func() error {
			heap()
			if n := remain(); n > 0 {
				return fmt.Errorf("%d of %d streams are still in memory", n, leave)
			}
			return nil
		})
		endOthers()
		c.forgotten()
	})
}

// TestNamesThatAProductHadLeaveNothing renames a subset again and again: its endpoints are the same product,
// each time under another name.
func TestNamesThatAProductHadLeaveNothing(t *testing.T) {
	c := startControl(t, nil)
	c.market(1)
	in := numbered("s0", 0)
	in.Service.Meta = map[string]string{"version": "v1"}
	c.instances("s0", in)
	fol, end := c.serve(declaring(t, "web-1", "web", port("s0", 9191)), false)
	rename := func(name string) {
		c.entries(chain.KindServiceResolver, &chain.ServiceResolver{
			Header: chain.Header{Name: "s0"}, DefaultSubset: name,
			Subsets: map[string]chain.Subset{name: {Filter: "Service.Meta.version == v1"}},
		})
		testenv.Eventually(t, 10*time.Second, func() error {
			fol.mu.Lock()
			defer fol.mu.Unlock()
			for held := range fol.held[session.EndpointURL] {
				if held == name+"."+clusterOf("s0") && len(fol.held[session.EndpointURL]) == 1 {
					return nil
				}
			}
			return fmt.Errorf("%s is not served: %v", name, fol.held[session.EndpointURL])
		})
	}
	rename("first")
	before := c.server.Sizes()
	for i := range 20 {
		rename(fmt.Sprintf("name-%d", i))
	}
	if after := c.server.Sizes(); !maps.Equal(before, after) {
		t.Errorf("%v became %v", before, after)
	}
	end()
	c.forgotten()
}
