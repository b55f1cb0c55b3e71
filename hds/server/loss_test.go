package server_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// TestTheLossOfAZoneAndOfAllTakesNothingDown loses a zone whose checkers close their streams, or say nothing more,
// as when the network between is cut, and then all that there are.
func TestTheLossOfAZoneAndOfAllTakesNothingDown(t *testing.T) {
	t.Parallel()
	const hold = time.Second
	for _, silently := range []bool{false, true} {
		t.Run(fmt.Sprintf("silently=%t", silently), func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, fleetOf{checkers: fleetCheckers, endpoints: 600, zones: 3, hold: hold})
			holds := func(since time.Time) {
				t.Helper()
				if gap := f.watch.gap(); !gap.IsZero() && gap.Sub(since) < hold {
					t.Errorf("after %v there was no verdict on what nobody had found down, want %v", gap.Sub(since), hold)
				}
			}
			var zone []*simulated
			for _, c := range f.checkers {
				if c.zone == "z0" {
					zone = append(zone, c)
				}
			}
			at := time.Now()
			if silently {
				f.mute(zone)
			} else {
				f.leave(zone...)
			}
			f.voted()
			holds(at)
			f.never()

			f.watch.anew() // on a busy machine the hold may have been over before others had looked
			at = f.leave(slices.Clone(f.checkers)...)
			testenv.Eventually(t, patience, func() error {
				if n := f.watch.covered(); n > 0 {
					return fmt.Errorf("%d endpoints are up though nobody looks", n)
				}
				return nil
			})
			t.Logf("%v after the loss of all checkers the verdicts were no longer known", f.watch.gap().Sub(at))
			holds(at)
			f.never()

			at = time.Now()
			f.come(fleetCheckers)
			f.voted()
			t.Logf("%v after %d checkers came back all was known again", time.Since(at), fleetCheckers)
			f.never()
		})
	}
}

// mute has checkers say nothing more, and counts them no longer.
func (f *fleet) mute(gone []*simulated) {
	f.checkers = slices.DeleteFunc(f.checkers, func(c *simulated) bool { return slices.Contains(gone, c) })
	for _, c := range gone {
		c.set(func() { c.mute = true })
	}
}
