//go:build e2e

package oraclexds_test

import (
	"os"
	"regexp"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// silences are how long a server says nothing more when it is done. Consul gathers changes for 200 ms, and
// what comes late to it makes another snapshot: where the servers differ, they are asked once more, and
// given more time.
func silences() []time.Duration { return []time.Duration{500 * time.Millisecond, 3 * time.Second} }

// TestSidecarsGetWhatConsulGivesThem compares the servers case by case.
func TestSidecarsGetWhatConsulGivesThem(t *testing.T) {
	cases, err := load("testdata")
	if err != nil {
		t.Fatal(err)
	}
	chosen, err := regexp.Compile(os.Getenv("ORACLE_XDS_CASE"))
	if err != nil {
		t.Fatal(err)
	}
	o := &oracle{}
	if o.table, err = readTable(tableFile); err != nil {
		t.Fatal(err)
	}
	testenv.Program(t)
	t.Run("case", func(t *testing.T) {
		for _, c := range cases {
			if chosen.MatchString(c.name) {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					o.run(t, c)
				})
			}
		}
	})
	if err := dump("diffs.md", report(o.left)); err != nil {
		t.Error(err)
	}
	if len(o.left) > 0 {
		t.Errorf("differences that %s does not explain:\n%s", tableFile, report(o.left))
	}
	for _, r := range o.table {
		if !r.used && os.Getenv("ORACLE_XDS_CASE") == "" {
			t.Errorf("%s explains what is nowhere: %s in %s", tableFile, r.path, r.kase)
		}
	}
}

// oracle gathers what all cases show.
type oracle struct {
	mu    sync.Mutex
	table []*row
	left  []difference
}

// run gives both servers a case, and compares.
func (o *oracle) run(t *testing.T, c *scenario) {
	s := startWorld(t, c.World)
	if err := s.write(c); err != nil {
		t.Fatal(err)
	}
	catenary := testenv.StartCatenary(t, s.consul.Env(), "--consul-addr", s.consul.HTTPAddr(), "--consul-grpc-addr", s.consul.GRPCAddr())
	testenv.Eventually(t, patience, catenary.Ready)
	var left []difference
	for _, silence := range silences() {
		if left = o.judge(s.compare(t, c, catenary, silence)); len(left) == 0 {
			return
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.left = append(o.left, left...)
	t.Errorf("%d differences, which are listed at the end: %s", len(left), c.About)
}

// judge returns the differences that the table does not explain.
func (o *oracle) judge(found []difference) []difference {
	o.mu.Lock()
	defer o.mu.Unlock()
	return unexplained(o.table, found)
}

// compare asks both servers, and returns where they differ.
func (s *state) compare(t *testing.T, c *scenario, catenary *testenv.Catenary, silence time.Duration) []difference {
	t.Helper()
	var theirs, ours tree
	var asking errgroup.Group
	ask := func(server, addr string, into *tree, file string) {
		asking.Go(func() error {
			got, err := collect(t.Context(), addr, s.consul.Token(), c, silence)
			if err != nil {
				t.Errorf("%s: %v", server, err)
			}
			if *into, err = got.tree(s.trustDomain); err != nil {
				return err
			}
			return dump(file, *into)
		})
	}
	ask("Consul", s.consul.GRPCAddr(), &theirs, c.name+".json")
	ask("Catenary", catenary.GRPCAddr, &ours, c.name+".ours.json")
	if err := asking.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := dump(c.name+".in.json", object{"about": c.About, "entries": c.Entries, "registrations": c.Services}); err != nil {
		t.Fatal(err)
	}
	return differences(c.name, theirs, ours)
}
