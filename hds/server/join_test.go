package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// TestAFleetThatComesBackIsWaitedForWhereThereIsMuchToTell has checkers come one after another, and looks when the
// first and the last of them are given duties, and how often that makes others' duties others.
func TestAFleetThatComesBackIsWaitedForWhereThereIsMuchToTell(t *testing.T) {
	const every = 20 * time.Millisecond
	for name, c := range map[string]struct {
		endpoints, checkers int
		waits               bool
		rounds              int // in which shares are given anew, at most
	}{
		"a lone checker":               {muchToTell, 1, false, 1},
		"few":                          {muchToTell, manyJoin - 1, false, manyJoin},
		"many, and little to tell":     {100, 6 * manyJoin, false, 6 * manyJoin},
		"many in a row":                {muchToTell, 6 * manyJoin, true, 5},
		"so many that it takes longer": {muchToTell, 18 * manyJoin, true, 7},
	} {
		t.Run(name, func(t *testing.T) {
			s := restarted(t, false)
			s.need(api)
			var list []*facts.Instance
			for i := range c.endpoints {
				list = append(list, placed(fmt.Sprint("i", i), "n", fmt.Sprintf("10.1.%d.%d", i/250, i%250), 80, nil))
			}
			s.commit(func(tx *facts.Tx) { tx.Instances(api, list, whole) })
			s.pass(t, time.Second) // nothing is left to do
			rounds, n := 0, 0
			given := func() {
				if now := len(s.assignment.Checkers()); now != n {
					n = now
					rounds++
				}
			}
			waited := false
			pass := func(d time.Duration) {
				s.pass(t, d)
				given()
				waited = waited || n < c.checkers && s.settledAt().After(s.now)
			}
			for i := range c.checkers {
				s.comes(fmt.Sprint("c", i))
				if pass(every); i == 0 && n != 1 {
					t.Fatal("the first is waited with")
				}
			}
			if waited != c.waits {
				t.Errorf("that others come is waited for: %t", waited)
			}
			for came := s.now; n < c.checkers; pass(10 * time.Millisecond) {
				if s.now.Sub(came) > 30*time.Second {
					t.Fatalf("%v after the last came, %d have duties", s.now.Sub(came), n)
				}
			}
			if rounds > c.rounds {
				t.Errorf("%d times all were given others, want %d at most", rounds, c.rounds)
			}
		})
	}
}
