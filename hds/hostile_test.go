package hds

import (
	"fmt"
	"testing"
	"time"
)

func TestPlacesThatSomebodyMakesUpDoNotAccumulate(t *testing.T) {
	a := NewAssignment(AssignmentConfig{})
	a.Put(duty(1, "n1", "z1"))
	a.Join(checker(1, "n1", "z1"), checker(2, "n2", "z2"))
	for i := range 20_000 {
		a.Join(checker(3, fmt.Sprint("node", i), fmt.Sprint("zone", i)))
		a.Leave("envoy-3")
	}
	if n := len(a.fleet.places.nodes) + len(a.fleet.places.zones); n > 5000 {
		t.Errorf("%d places are known", n)
	}
	if got := a.Holders(duty(1, "n1", "z1").Key); len(got) != 2 {
		t.Errorf("the endpoint's checkers are %v", got)
	}
}

func TestACheckerThatChangesItsMindAlwaysCostsNoMemory(t *testing.T) {
	b := newBench(t, 4, "")
	b.duties[0].Probe.Interval = time.Hour // so what is up again waits long
	b.v.Put(b.duties...)
	b.v.Assign(b.now, b.checkers[0], b.duties, nil)
	for i := range 20_000 {
		b.now = b.now.Add(10 * time.Millisecond)
		b.say(0, []Status{StatusHealthy, StatusAnswered}[i/2%2], b.every()...)
		b.settle()
	}
	if n := len(b.v.timers.entries); n > 200 {
		t.Errorf("%d times to look again at 4 endpoints", n)
	}
}

// While one does not report, others do.
func TestReportsOfOthersDoNotFillTheMemoryOfWhoWaits(t *testing.T) {
	b := newBench(t, 4, "", "")
	b.say(0, StatusUnhealthy, b.every()...)
	for i := range 10_000 {
		b.now = b.now.Add(100 * time.Microsecond)
		b.say(1, []Status{StatusHealthy, StatusAnswered}[i%2], b.every()...)
		b.settle()
	}
	if n := len(b.v.voters["envoy-0"].awaited); n > 4 {
		t.Errorf("%d endpoints wait for a checker's next report, of 4", n)
	}
}

func TestAReportHasASize(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	r, spec, _ := told(now, MaxDuties)
	full := report(t, spec, false, healthy)
	if _, err := r.Receive(now, full); err != nil {
		t.Errorf("a report of %d bytes on %d endpoints: %v", len(full), MaxDuties, err)
	}
	r.Told(now, Specifier{})
	if _, err := r.Receive(now, full); err != nil {
		t.Errorf("a report on what the checker had a moment ago: %v", err)
	}
	stranger := NewReports(now, time.Second)
	stranger.Told(now, Specifier{})
	if _, err := stranger.Receive(now, full); err == nil {
		t.Errorf("%d bytes of a checker without duties are read", len(full))
	}
}

func TestWhoWasToldNothingIsNotSilent(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	r := NewReports(now, time.Second)
	now = now.Add(time.Minute)
	if text := r.Problem(now); text != "" {
		t.Error(text)
	}
	r.Told(now, Specifier{})
	if text := r.Problem(now.Add(Patience(time.Second))); text != "" {
		t.Error(text)
	}
	if text := r.Problem(now.Add(Patience(time.Second) + time.Millisecond)); text == "" {
		t.Error("it says nothing, and nobody minds")
	}
}
