package server_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/hds/server"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// reportEvery is how often the checkers of a simulated fleet report.
const reportEvery = 100 * time.Millisecond

// fleet is many checkers that cost little, and endpoints in services and zones, each at a port of its own.
type fleet struct {
	*rig
	zones    int
	ports    []int
	checkers []*simulated
	watch    *watch
}

// per is how many endpoints a service of a fleet has.
const per = 50

// fleetOf is how a fleet is.
type fleetOf struct {
	checkers, endpoints int
	// zones is in how many of them they are, 0 for in none.
	zones int
	// hold is how long verdicts stay without votes, the server's own by default.
	hold time.Duration
}

// newFleet has all endpoints up.
func newFleet(t *testing.T, of fleetOf) *fleet {
	t.Helper()
	if testenv.Race() {
		of.endpoints /= 4 // a figure is not what the race detector is for
	}
	f := &fleet{zones: of.zones, rig: newRig(t, func(c *server.Config) {
		c.ReportInterval, c.Hold = reportEvery, of.hold
	})}
	// First the checkers: who comes to a catalog makes all others do something else.
	f.come(of.checkers)
	f.watch = f.follow((of.endpoints + per - 1) / per)
	catalog(f.store, world{
		endpoints: of.endpoints, per: per, zones: of.zones, meta: map[string]string{"hds-protocol": "tcp"},
		address: func(i int) (string, int) {
			f.ports = append(f.ports, firstPort+i)
			return "127.0.0.1", firstPort + i
		},
	})
	f.voted()
	return f
}

// come connects checkers, in turn in each zone, and returns when the server knows them.
func (f *fleet) come(n int) {
	f.t.Helper()
	var came []*simulated
	for i := range n {
		came = append(came, f.connect(fmt.Sprint("c", i), zoneOf(i, f.zones)))
	}
	for _, c := range came {
		f.greet(c)
	}
	testenv.Eventually(f.t, patience, func() error {
		if got := f.server.Figures().Checkers; got != len(f.checkers) {
			return fmt.Errorf("%d checkers work, want %d", got, len(f.checkers))
		}
		return nil
	})
}

// connect connects a checker that finds everything well.
func (f *fleet) connect(id, zone string) *simulated {
	f.t.Helper()
	c, err := simulate(simulation{addr: f.addr, id: id, zone: zone, every: reportEvery, finds: allUp})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := c.stop(); err != nil {
			f.t.Error(err)
		}
	})
	return c
}

// greet has one of the fleet's checkers say who it is.
func (f *fleet) greet(c *simulated) {
	f.t.Helper()
	if err := c.greet(); err != nil {
		f.t.Fatal(err)
	}
	f.checkers = append(f.checkers, c)
}

const firstPort = 1000

func zoneOf(i, zones int) string {
	if zones == 0 {
		return ""
	}
	return fmt.Sprint("z", i%zones)
}

// world is a catalog of services that ask for probes.
type world struct {
	endpoints, per, zones int
	meta                  map[string]string
	address               func(i int) (string, int)
}

// catalog commits it.
func catalog(store *facts.Store, w world) {
	var entries []chain.Entry
	lists := map[string][]*facts.Instance{}
	for i := range w.endpoints {
		name := fmt.Sprint("s", i/w.per)
		if i%w.per == 0 {
			entries = append(entries, &chain.ServiceDefaults{Header: chain.Header{Name: name, Meta: w.meta}})
		}
		address, port := w.address(i)
		in := &facts.Instance{
			Node:    facts.Node{Node: fmt.Sprint("n", i), Address: address, ModifyIndex: 1},
			Service: facts.Service{ID: fmt.Sprint(name, "-", i), Service: name, Port: port, ModifyIndex: 1},
		}
		if w.zones > 0 {
			in.Service.Locality = &facts.Locality{Region: "r", Zone: zoneOf(i, w.zones)}
		}
		lists[name] = append(lists[name], in)
	}
	store.Commit(func(tx *facts.Tx) {
		tx.Entries(chain.KindServiceDefaults, entries, confirmed)
		for name, list := range lists {
			tx.Instances(facts.Health("dc1", name), list, confirmed)
		}
	})
}

// watch follows the facts, and counts what must never be there.
type watch struct {
	mu    sync.Mutex
	up    map[facts.Topic]int
	downs int
	// most is the highest cover there was, and fell when it was first less again, zero for never.
	most int
	fell time.Time
}

// follow watches so many services.
func (f *fleet) follow(services int) *watch {
	w := &watch{up: map[facts.Topic]int{}}
	topics := map[facts.Topic]facts.Topic{}
	for i := range services {
		name := fmt.Sprint("s", i)
		topics[facts.VerdictsOf("dc1", name)] = facts.Health("dc1", name)
	}
	sub := f.store.Subscribe()
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		defer sub.Close()
		for {
			view, ids := sub.Drain()
			for _, id := range ids {
				if health, ok := topics[id.Topic]; ok {
					w.see(id.Topic, must(view.Verdicts(health)))
				}
			}
			select {
			case <-sub.Bell():
			case <-ctx.Done():
				return
			}
		}
	})
	f.t.Cleanup(func() { cancel(); group.Wait() })
	return w
}

func (w *watch) see(t facts.Topic, verdicts facts.Verdicts) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.up[t] = 0
	for _, v := range verdicts {
		if v.Up {
			w.up[t]++
		} else {
			w.downs++
		}
	}
	switch n := w.cover(); {
	case n >= w.most:
		w.most = n
	case w.fell.IsZero():
		w.fell = time.Now()
	}
}

func (w *watch) cover() int {
	n := 0
	for _, up := range w.up {
		n += up
	}
	return n
}

// covered is how many endpoints are up.
func (w *watch) covered() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cover()
}

// found is how often an endpoint was down.
func (w *watch) found() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.downs
}

// gap is when endpoints that were up first had no verdict, if they ever had none.
func (w *watch) gap() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fell
}

// anew forgets what fell before.
func (w *watch) anew() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.most, w.fell = w.cover(), time.Time{}
}

// up waits until all endpoints are.
func (f *fleet) up() {
	f.t.Helper()
	testenv.Eventually(f.t, patience, func() error {
		if n := f.watch.covered(); n != len(f.ports) {
			return fmt.Errorf("%d of %d endpoints are up", n, len(f.ports))
		}
		return nil
	})
}

// voted waits until all endpoints are up by the votes of three each.
func (f *fleet) voted() {
	f.t.Helper()
	f.spread(fleetK, nil)
	f.up()
	testenv.Eventually(f.t, patience, func() error {
		if n := f.server.Figures().Votes; n != fleetK*len(f.ports) {
			return fmt.Errorf("there are %d votes on %d endpoints", n, len(f.ports))
		}
		return nil
	})
}

// never fails the test if any endpoint has ever been down, or a service frozen.
func (f *fleet) never() {
	f.t.Helper()
	if downs := f.watch.found(); downs > 0 {
		f.t.Errorf("endpoints that are well were down %d times", downs)
	}
	if n := f.server.Figures().Freezes; n > 0 {
		f.t.Errorf("%d services were frozen", n)
	}
}

// spread waits until k checkers have each endpoint, and returns who, as they were told.
func (f *fleet) spread(k int, and func() error) map[int][]*simulated {
	f.t.Helper()
	var holders map[int][]*simulated
	testenv.Eventually(f.t, patience, func() error {
		holders = map[int][]*simulated{}
		for _, c := range f.checkers {
			for _, p := range c.has() {
				holders[p] = append(holders[p], c)
			}
		}
		for _, p := range f.ports {
			if n := len(holders[p]); n != k {
				return fmt.Errorf("%d checkers have the endpoint %d, want %d", n, p, k)
			}
		}
		if and != nil {
			return and()
		}
		return nil
	})
	return holders
}

// leave ends checkers at once, and returns when.
func (f *fleet) leave(gone ...*simulated) time.Time {
	f.checkers = slices.DeleteFunc(f.checkers, func(c *simulated) bool { return slices.Contains(gone, c) })
	at := time.Now()
	for _, c := range gone {
		c.cancel()
	}
	for _, c := range gone {
		_ = c.stop() // the test looks at that at its end
	}
	return at
}
