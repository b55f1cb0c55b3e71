package server

import (
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/hds"
)

func TestALeaseIsOfThreeIntervals(t *testing.T) {
	s := newStill(t)
	fetcher := func() *stream {
		return &stream{id: "f", hello: hds.Hello{NodeID: "f"}, bell: make(chan struct{}, 1), lease: &lease{}}
	}
	if _, err := s.renew(s.now, fetcher()); err != nil {
		t.Fatal(err)
	}
	const whole = 3 * time.Second
	s.pass(t, whole-2*tick)
	if len(s.checkers) != 1 {
		t.Fatal("a lease ended before three intervals")
	}
	if _, err := s.renew(s.now, fetcher()); err != nil {
		t.Fatal(err)
	}
	s.pass(t, whole-2*tick)
	if n := len(s.checkers["f"].streams); n != 1 {
		t.Fatalf("a lease that is renewed is %d", n)
	}
	s.pass(t, 4*tick)
	if len(s.checkers)+len(s.leases)+s.leased != 0 {
		t.Errorf("after three intervals there are %d checkers, and %d leases of %d holders", len(s.checkers), s.leased, len(s.leases))
	}
}
