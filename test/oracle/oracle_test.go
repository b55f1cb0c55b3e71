//go:build e2e

package oracle_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// TestChainsAreConsuls is the comparison that the package is for.
func TestChainsAreConsuls(t *testing.T) {
	want := number(t, "ORACLE_CHAINS", 500)
	seed := number(t, "ORACLE_SEED", rand.Uint64N(1_000_000))
	t.Logf("ORACLE_SEED=%d ORACLE_CHAINS=%d", seed, want)
	j, err := newJudge(testenv.StartConsul(t))
	if err != nil {
		t.Fatal(err)
	}
	defer j.close()
	began := time.Now()
	r := &run{judge: j, seed: seed, odd: oddEntries(t)}
	for r.tally.chains.Load() < int64(want) && len(r.differences) == 0 {
		if err := r.round(); err != nil {
			t.Fatalf("with seed %d: %v\nso far: %v", seed, err, &r.tally)
		}
	}
	t.Logf("seed %d: compared %v; %d differences; %s", seed, &r.tally, len(r.differences), time.Since(began).Round(time.Second))
	for i, d := range r.differences {
		if i == maxShown {
			t.Errorf("and %d more", len(r.differences)-maxShown)
			break
		}
		t.Errorf("with seed %d: %s", seed, report(j, d))
	}
}

// number reads a setting.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// The shape of a run: groups of one round are in Consul together, and share its proxy-defaults.
const (
	groupsOfRound = 24
	maxShown      = 3
)

// run is a run of rounds against one Consul.
type run struct {
	judge  *judge
	seed   uint64
	odd    map[chain.Kind][]object
	groups uint64 // made so far
	tally  tally

	mu          sync.Mutex
	differences []*difference
}

// round lets new groups grow, under proxy-defaults that change between the steps, and takes all away.
func (r *run) round() error {
	var groups []*group
	for range groupsOfRound {
		r.groups++
		groups = append(groups, &group{
			generator: newGenerator(r.seed, r.groups, r.odd), judge: r.judge, tally: &r.tally, world: newWorld(),
		})
	}
	// The generator of proxy-defaults is no group's: theirs is one round's.
	common := &group{generator: newGenerator(r.seed, 1<<32+r.groups, r.odd), judge: r.judge, tally: &r.tally, world: newWorld()}
	steps := []func() error{
		func() error { return r.proxyDefaults(common, groups) },
		func() error { return r.each(groups, (*group).settle) },
		func() error { return r.proxyDefaults(common, groups) },
		func() error { return r.each(groups, (*group).stir) },
		func() error { return r.proxyDefaults(common, groups) },
		func() error { return r.each(groups, func(g *group) error { return g.askAll(1) }) },
		func() error { return r.readBack(groups) },
		func() error { return r.each(groups, (*group).leave) },
		func() error { return r.judge.clear() },
	}
	for _, step := range steps {
		if err := r.note(step()); err != nil || len(r.differences) > 0 {
			return err
		}
	}
	return nil
}

// note keeps a difference and returns any other error.
func (r *run) note(err error) error {
	if d := (*difference)(nil); errors.As(err, &d) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.differences = append(r.differences, d)
		return nil
	}
	return err
}

// each does something with all groups, several at once.
func (r *run) each(groups []*group, do func(*group) error) error {
	todo := make(chan *group)
	failed := make([]error, workers)
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			for g := range todo {
				if failed[i] == nil {
					failed[i] = r.note(do(g))
				}
			}
		})
	}
	for _, g := range groups {
		todo <- g
	}
	close(todo)
	wg.Wait()
	return errors.Join(failed...)
}

// proxyDefaults tries two changes of what all groups have in common.
func (r *run) proxyDefaults(common *group, groups []*group) error {
	for _, g := range groups {
		for _, name := range g.world.refs() {
			common.world.put(g.world.docs[name], g.world.entries[name])
		}
	}
	defer func() {
		proxy := ref{chain.KindProxyDefaults, chain.GlobalName}
		for _, g := range groups {
			g.world.remove(proxy)
			if e := common.world.entries[proxy]; e != nil {
				g.world.put(common.world.docs[proxy], e)
			}
		}
		common.world = newWorld()
	}()
	for range 2 {
		c := write(common.of(chain.KindProxyDefaults, chain.GlobalName))
		if common.odds(0.2) {
			c.doc = nil
		}
		if _, err := common.change(c); err != nil {
			return err
		}
	}
	return nil
}

// readBack lets the groups compare their entries with what Consul has stored.
func (r *run) readBack(groups []*group) error {
	stored := map[ref]json.RawMessage{}
	for _, kind := range chain.Kinds() {
		list, err := r.judge.stored(kind)
		if err != nil {
			return err
		}
		for _, raw := range list {
			var head object
			if err := json.Unmarshal(raw, &head); err != nil {
				return err
			}
			stored[refOf(head).key()] = raw
		}
	}
	return r.each(groups, func(g *group) error { return g.readBack(stored) })
}
