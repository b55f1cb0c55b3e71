package hds

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// TestSettlingWhatChangedIsSettlingEverything holds verdicts that weigh what changed against others that
// weigh every endpoint each time.
func TestSettlingWhatChangedIsSettlingEverything(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 5))
		b := newBench(t, 0)
		slow := NewVerdicts(VerdictsConfig{ReportInterval: time.Second})
		both := []*Verdicts{b.v, slow}
		for i := range 3 + r.IntN(25) {
			d := duty(i, "", []string{"", "a", "b"}[r.IntN(3)])
			d.Service = fmt.Sprintf("s%d", r.IntN(3))
			b.duties = append(b.duties, d)
		}
		for _, v := range both {
			v.Put(b.duties...)
		}
		for step := range 300 {
			event := randomEvent(r, b)
			for _, v := range both {
				event(v)
			}
			b.now = b.now.Add(time.Duration(r.IntN(700)) * time.Millisecond)
			if r.IntN(40) == 0 {
				b.now = b.now.Add(time.Duration(r.IntN(60)) * time.Second)
			}
			for _, rec := range slow.records {
				slow.touch(rec)
			}
			slow.Settle(b.now)
			b.settle()
			for _, d := range b.duties {
				if got, want := b.v.Verdict(d.Key), slow.Verdict(d.Key); got != want {
					e, _ := b.v.Explain(d.Key)
					t.Fatalf("seed %d, step %d: %v is %v, and would be %v: %+v", seed, step, d.Key, got, want, e)
				}
			}
			if got, want := fmt.Sprint(b.v.Freezes()), fmt.Sprint(slow.Freezes()); got != want {
				t.Fatalf("seed %d, step %d: the freezes are %s, and would be %s", seed, step, got, want)
			}
		}
	}
}

// randomEvent is something that happens to both.
func randomEvent(r *rand.Rand, b *bench) func(*Verdicts) {
	n, now := r.IntN(6), b.now
	c := checker(n, "", []string{"", "a", "b"}[n%3])
	some := b.duties[r.IntN(len(b.duties)):]
	status := []Status{StatusHealthy, StatusHealthy, StatusUnhealthy, StatusAnswered, StatusTimeout, NotReported}[r.IntN(6)]
	var seen []Observation
	for _, d := range some {
		seen = append(seen, Observation{Key: d.Key, Status: status})
	}
	switch r.IntN(12) {
	case 0:
		return func(v *Verdicts) { v.Drop(c.ID) }
	case 1, 2:
		waiting := b.duties[:r.IntN(len(b.duties))]
		return func(v *Verdicts) { v.Assign(now, c, some, waiting) }
	case 3:
		return func(v *Verdicts) { v.Remove(some[0].Key) }
	case 4:
		return func(v *Verdicts) { v.Put(some...) }
	case 5:
		return func(v *Verdicts) { v.Release(now, some[0].Service) }
	case 6, 7, 8:
		return func(v *Verdicts) { v.Report(now, c.ID, nil) }
	default:
		return func(v *Verdicts) { v.Report(now, c.ID, seen) }
	}
}
