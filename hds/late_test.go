package hds

import (
	"testing"
	"time"
)

func TestWhatWasLongOnItsWayIsNoVote(t *testing.T) {
	b := newBench(t, 1, "", "", "")
	b.pass(5 * time.Second) // with reports that are still about nothing of this
	b.sayAll(StatusUnhealthy, 0)
	b.want("unknown") // whoever says so may have been told a moment ago
	b.sayAll(StatusUnhealthy)
	b.want("unknown")
	b.sayAll(StatusUnhealthy)
	b.want("down") // two reports after the first, which come once a second
}

func TestTheListenersLatenessIsNoSilence(t *testing.T) {
	now := time.Unix(1000, 0)
	r, spec, _ := told(now, 1)
	if _, err := r.Receive(now, report(t, spec, false, healthy)); err != nil {
		t.Fatal(err)
	}
	r.Excuse(2 * time.Second)
	if r.Silent(now.Add(4*time.Second)) || !r.Silent(now.Add(6*time.Second)) {
		t.Error("a checker is silent after 3 s, and 2 s of them were the listener's")
	}
	if _, err := r.Receive(now.Add(6*time.Second), nil); err != nil || !r.Silent(now.Add(10*time.Second)) {
		t.Errorf("an excuse outlasts a report; error %v", err)
	}
}

func TestPatienceIsThreeReportsAndTwoSecondsAtTheLeast(t *testing.T) {
	for interval, want := range map[time.Duration]time.Duration{
		5 * time.Millisecond: 2 * time.Second, 500 * time.Millisecond: 2 * time.Second, time.Second: 3 * time.Second, time.Minute: 3 * time.Minute,
	} {
		if got := Patience(interval); got != want {
			t.Errorf("who reports each %v may be silent for %v, want %v", interval, got, want)
		}
	}
}
