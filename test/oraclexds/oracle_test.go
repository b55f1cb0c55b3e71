//go:build e2e

package oraclexds_test

import (
	"os"
	"regexp"
	"testing"
)

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
	for _, w := range []world{open, guarded, joined} {
		var of []*scenario
		for _, c := range cases {
			if c.World == w && chosen.MatchString(c.name) {
				of = append(of, c)
			}
		}
		if len(of) == 0 {
			continue
		}
		t.Run(string(w), func(t *testing.T) {
			s := startWorld(t, w)
			for _, c := range of {
				t.Run(c.name, func(t *testing.T) { s.run(t, c) })
			}
		})
	}
}

// run gives both servers a case, and compares.
func (s *state) run(t *testing.T, c *scenario) {
	defer func() {
		if err := s.clear(c); err != nil {
			t.Error(err)
		}
	}()
	if err := s.write(c); err != nil {
		t.Fatal(err)
	}
	got, err := collect(t, s.consul.GRPCAddr(), s.consul.Token(), c)
	if err != nil {
		t.Fatalf("Consul: %v", err)
	}
	theirs, err := got.json(s.trustDomain)
	if err != nil {
		t.Fatal(err)
	}
	if err := dump(c.name+".in.json", object{"about": c.About, "entries": c.Entries, "registrations": c.Services}); err != nil {
		t.Fatal(err)
	}
	if err := dump(c.name+".json", theirs); err != nil {
		t.Fatal(err)
	}
}
