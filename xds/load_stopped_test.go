package xds_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
	"github.com/catenary-mesh/catenary/xds/session"
)

// round is what one round of changes cost those that read.
type round struct {
	p50              time.Duration // from a change to a client that has it
	responses, bytes int
}

// pace is how far changes are apart at least, so that each goes out alone.
const pace = 15 * time.Millisecond

// measure changes api so many times, each time after all callers have the change before.
func (c *control) measure(callers []*caller, got chan time.Time, first, changes int) round {
	c.t.Helper()
	before := sum(callers)
	var took []time.Duration
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for i := range changes {
		<-tick.C
		begin := time.Now()
		c.number("api", uint32(first+i))
		for range callers {
			select {
			case at := <-got:
				took = append(took, at.Sub(begin))
			case <-time.After(20 * time.Second):
				c.t.Fatalf("change %d has not reached all", first+i)
			}
		}
	}
	c.told(callers, "api", uint32(first+changes-1))
	slices.Sort(took)
	after := sum(callers)
	return round{took[len(took)/2], after.responses - before.responses, after.bytes - before.bytes}
}

func sum(callers []*caller) (all round) {
	for _, cl := range callers {
		responses, bytes := cl.told()
		all.responses += responses
		all.bytes += bytes
	}
	return all
}

// TestAStreamThatStopsReadingCostsOthersNothing alternates rounds with such a stream and without.
func TestAStreamThatStopsReadingCostsOthersNothing(t *testing.T) {
	const clients, rounds, changes = 20, 5, 15
	forms(t, func(t *testing.T, sotw bool) {
		c := startControl(t, nil)
		c.load("api")
		c.closed()
		c.number("api", 0)
		got := make(chan time.Time, clients)
		var callers []*caller
		for i := range clients {
			cl := callerOf(t, fmt.Sprintf("good-%d", i), sotw, "api")
			cl.numbers = func(_ string, n uint32) {
				if n > 0 {
					got <- time.Now()
				}
			}
			callers = append(callers, cl)
		}
		end := c.calls(callers...)
		c.synced(clients, xds.StateSynced)
		next := 1
		c.measure(callers, got, next, 2*changes) // warms up
		next += 2 * changes
		var without, with []round
		for range rounds {
			without = append(without, c.measure(callers, got, next, changes))
			next += changes
			ctx, cancel := context.WithCancel(t.Context())
			c.deaf(ctx, sotw)
			with = append(with, c.measure(callers, got, next, changes))
			next += changes
			cancel()
			c.synced(clients, xds.StateSynced)
		}
		compare(t, without, with, clients*changes)
		end()
		c.forgotten()
	})
}

// compare holds the rounds with a stream that stopped to those without: equal counts, and the median of
// their times within the spread, with half as much and 1 ms for a machine that does other things too.
func compare(t *testing.T, without, with []round, responses int) {
	t.Helper()
	var times, spread []time.Duration
	for _, r := range slices.Concat(without, with) {
		if r.responses != responses || r.bytes != without[0].bytes {
			t.Errorf("a round took %d responses of %d bytes, want %d of %d", r.responses, r.bytes, responses, without[0].bytes)
		}
	}
	for i := range with {
		times, spread = append(times, with[i].p50), append(spread, without[i].p50)
	}
	t.Logf("p50 without: %v, with: %v", spread, times)
	slices.Sort(times)
	if median, most := times[len(times)/2], slices.Max(spread)*3/2+time.Millisecond; median > most {
		t.Errorf("with a stream that stopped a change takes %s, want %s at most", median, most)
	}
}

// heap is what is in use, with nothing left to collect.
func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestAStreamThatStopsReadingHasABoundedMemory publishes thousands of changes that it would have to be
// told of.
func TestAStreamThatStopsReadingHasABoundedMemory(t *testing.T) {
	const services, rounds, slack = 300, 20, 1 << 20
	forms(t, func(t *testing.T, sotw bool) {
		c := startControl(t, nil)
		names := c.market(services)
		reader := callerOf(t, "good", sotw, names...)
		c.calls(reader)
		c.synced(1, xds.StateSynced)
		c.stopped(sotw, names)
		publish := func(n uint32) {
			c.store.Commit(func(tx *facts.Tx) {
				for _, name := range names {
					tx.Instances(facts.Health("dc1", name), []*facts.Instance{numbered(name, n)}, confirmed)
				}
			})
			c.told([]*caller{reader}, names[services-1], n)
		}
		publish(1)
		before := heap()
		for n := range uint32(rounds) {
			publish(2 + n)
		}
		testenv.Eventually(t, 10*time.Second, func() error { // what the reader is given is let go of a little later
			if grown := heap() - before; grown > slack {
				return fmt.Errorf("%d changes made the heap grow by %d bytes", rounds*services, grown)
			}
			return nil
		})
		for _, typ := range c.of("stopped")[0].Types {
			if typ.Responses > 1 {
				t.Errorf("%d responses of type %s wait for a client that reads none", typ.Responses, typ.Type)
			}
		}
	})
}

func TestAStreamThatStopsReadingIsToldWhyItWasClosed(t *testing.T) {
	forms(t, func(t *testing.T, sotw bool) {
		c := startControl(t, func(cfg *xds.Config) { cfg.AnswerWithin = 300 * time.Millisecond })
		st := c.stopped(sotw, c.market(300))
		c.forgotten()
		var err error
		for err == nil {
			_, err = st.reply()
		}
		if status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("the stream ends as %v", err)
		}
	})
}

// stopped opens a stream that asks for everything and does not read.
func (c *control) stopped(sotw bool, services []string) wire {
	c.t.Helper()
	cl := callerOf(c.t, "stopped", sotw, services...)
	w, err := openWire(c.t.Context(), c.dial(), sotw)
	if err != nil {
		c.t.Fatal(err)
	}
	cl.asks[0].node = cl.node
	for _, m := range cl.asks {
		if err := w.send(m); err != nil {
			c.t.Fatal(err)
		}
	}
	testenv.Eventually(c.t, 10*time.Second, func() error {
		for _, p := range c.of("stopped") {
			for _, typ := range p.Types {
				if typ.Type == "cluster" && typ.Responses == 1 {
					return nil
				}
			}
		}
		return fmt.Errorf("nothing was sent yet, of %s", session.ClusterURL)
	})
	return w
}
