package hds

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func all() Capability { return Capability{HTTP: true, TCP: true, GRPC: true, Redis: true, TLS: true} }

func duty(i int, node, zone string) Duty {
	return Duty{
		Endpoint: Endpoint{Key: Key{fmt.Sprintf("s%d", i/50), fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), 80}, Service: fmt.Sprintf("s%d", i/50), Node: node, Zone: zone},
		Probe:    DefaultProbe(TCP), Policy: And,
	}
}

func checker(i int, node, zone string) Checker {
	return Checker{ID: fmt.Sprintf("envoy-%d", i), Node: node, Zone: zone, Can: all()}
}

func fleetOf(m, n, zones int) (*Assignment, []Duty, []Checker) {
	a := NewAssignment(AssignmentConfig{})
	zone := func(i int) string {
		if zones == 0 {
			return ""
		}
		return fmt.Sprintf("z%d", i%zones)
	}
	var duties []Duty
	var checkers []Checker
	for i := range m {
		duties = append(duties, duty(i, fmt.Sprintf("n%d", i%997), zone(i)))
	}
	for i := range n {
		checkers = append(checkers, checker(i, fmt.Sprintf("n%d", i), zone(i)))
	}
	a.Join(checkers...)
	a.Put(duties...)
	return a, duties, checkers
}

// model is the rule in its slowest form: who should probe the endpoint if nobody were ever full.
func model(k int, d Duty, checkers []Checker) []string {
	var near, far, own []Checker
	for _, c := range checkers {
		switch {
		case !c.Can.Can(d.Probe):
		case d.Node != "" && c.Node == d.Node:
			own = append(own, c)
		case d.Zone != "" && c.Region == d.Region && c.Zone == d.Zone:
			near = append(near, c)
		default:
			far = append(far, c)
		}
	}
	for _, group := range [][]Checker{near, far, own} {
		slices.SortFunc(group, func(x, y Checker) int {
			sx, sy := score(hashKey(d.Key), hashText(hashSeed, x.ID)), score(hashKey(d.Key), hashText(hashSeed, y.ID))
			if sx > sy {
				return -1
			}
			return 1
		})
	}
	inside := k
	if k > 1 && len(far) > 0 {
		inside--
	}
	picked := slices.Clone(near[:min(inside, len(near))])
	picked = append(picked, far[:min(k-len(picked), len(far))]...)
	if len(picked) > 0 {
		picked = append(picked, own[:min(k-len(picked), len(own))]...)
	}
	var ids []string
	for _, c := range picked {
		ids = append(ids, c.ID)
	}
	slices.Sort(ids)
	return ids
}

func TestAssignmentFollowsItsModelWhileNobodyIsFull(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		k := 1 + r.IntN(4)
		a := NewAssignment(AssignmentConfig{Checkers: k})
		a.unbounded = true
		live, wanted := map[string]Checker{}, map[Key]Duty{}
		for step := range 60 {
			place := func() (string, string) { return fmt.Sprintf("n%d", r.IntN(6)), []string{"", "a", "b", "c"}[r.IntN(4)] }
			switch r.IntN(4) {
			case 0:
				c := checker(r.IntN(10), "", "")
				c.Node, c.Zone = place()
				c.Can.HTTP = r.IntN(3) > 0
				a.Join(c)
				live[c.ID] = c
			case 1:
				id := fmt.Sprintf("envoy-%d", r.IntN(10))
				a.Leave(id)
				delete(live, id)
			case 2:
				d := duty(r.IntN(20), "", "")
				d.Node, d.Zone = place()
				d.Probe = DefaultProbe([]Protocol{TCP, HTTP}[r.IntN(2)])
				a.Put(d)
				wanted[d.Key] = d
			case 3:
				key := duty(r.IntN(20), "", "").Key
				a.Remove(key)
				delete(wanted, key)
			}
			var checkers []Checker
			for _, c := range live {
				checkers = append(checkers, c)
			}
			for key, d := range wanted {
				if got, want := a.Holders(key), model(k, d, checkers); !slices.Equal(got, want) {
					t.Fatalf("seed %d, step %d: %v on %s in %q is probed by %v, and the model says %v", seed, step, key, d.Node, d.Zone, got, want)
				}
			}
			check(t, a)
		}
	}
}

// check holds the two directions of the assignment against each other.
func check(t *testing.T, a *Assignment) {
	t.Helper()
	held := 0
	for _, c := range a.Checkers() {
		duties := a.Duties(c.ID)
		held += len(duties)
		for _, d := range duties {
			if !slices.Contains(a.Holders(d.Key), c.ID) {
				t.Fatalf("%s has the duty %v, which has not %s", c.ID, d.Key, c.ID)
			}
		}
	}
	for key := range a.byKey {
		held -= len(a.Holders(key))
	}
	if held != 0 {
		t.Fatalf("checkers have %d duties more than duties have checkers", held)
	}
}

func TestNobodyHasMuchMoreThanTheMean(t *testing.T) {
	for _, c := range []struct{ m, n, zones int }{{2000, 10, 0}, {2000, 40, 3}, {5000, 100, 2}, {300, 32, 0}, {7, 30, 3}, {5000, 30, 4}} {
		t.Run(fmt.Sprintf("%d-on-%d-in-%d", c.m, c.n, c.zones), func(t *testing.T) {
			a, duties, checkers := fleetOf(c.m, c.n, c.zones)
			r := rand.New(rand.NewPCG(1, 2))
			for step := range 25 {
				if step > 0 {
					i := r.IntN(c.n)
					if _, ok := a.checkers[checkers[i].ID]; ok && len(a.checkers) > c.n*3/4 {
						a.Leave(checkers[i].ID)
					} else {
						a.Join(checkers[i])
					}
					for range 12 {
						a.Rebalance()
					}
				}
				limit := a.limit(mostPercent)
				for _, ch := range a.Checkers() {
					if n := int(a.fleet.load[a.checkers[ch.ID]]); n > limit {
						t.Fatalf("step %d: %s has %d duties, more than %d", step, ch.ID, n, limit)
					}
				}
			}
			for _, d := range duties {
				if n := len(a.Holders(d.Key)); n != 3 {
					t.Fatalf("%v has %d checkers", d.Key, n)
				}
			}
		})
	}
}

func TestEndpointsAreSeenFromTheirZoneAndFromOutside(t *testing.T) {
	a, duties, _ := fleetOf(3000, 60, 3)
	broken := 0
	for _, d := range duties {
		inside := 0
		for _, id := range a.Holders(d.Key) {
			if c := a.fleet.checkers[a.checkers[id]]; c.Zone == d.Zone {
				inside++
			} else if c.Node == d.Node {
				t.Errorf("%v is probed from its own node, with %d other checkers", d.Key, len(a.checkers))
			}
		}
		if inside != 2 {
			broken++
		}
	}
	if broken > len(duties)/50 {
		t.Errorf("%d of %d endpoints are not probed by two of their zone and one of another", broken, len(duties))
	}
}

func TestLittleMovesWhenCheckersComeAndGo(t *testing.T) {
	for _, zones := range []int{0, 3} {
		a, duties, checkers := fleetOf(5000, 100, zones)
		holders := func() map[Key][]string {
			m := map[Key][]string{}
			for _, d := range duties {
				m[d.Key] = a.Holders(d.Key)
			}
			return m
		}
		before := holders()
		for i := range 30 {
			if i%2 == 0 {
				a.Leave(checkers[i].ID)
			} else {
				a.Join(checkers[i-1])
			}
			after := holders()
			moved := 0
			for k, h := range after {
				for _, id := range h {
					if !slices.Contains(before[k], id) {
						moved++
					}
				}
			}
			if most := 3*len(duties)*11/10/len(a.checkers) + 2; moved > most {
				t.Errorf("zones %d, step %d: %d duties moved, more than %d", zones, i, moved, most)
			}
			before = after
		}
	}
}

func TestNobodyHasMoreThanAnEnvoyCanProbe(t *testing.T) {
	a, _, _ := fleetOf(5000, 4, 0)
	for _, c := range a.Checkers() {
		if n := len(a.Duties(c.ID)); n != MaxDuties {
			t.Errorf("%s has %d duties", c.ID, n)
		}
	}
	if a.Short() < 1000 {
		t.Errorf("%d endpoints are short of checkers", a.Short())
	}
}

func TestAnEndpointIsNotJudgedByItsOwnNodeAlone(t *testing.T) {
	a := NewAssignment(AssignmentConfig{})
	d := duty(1, "n1", "")
	a.Put(d)
	a.Join(checker(1, "n1", ""))
	if got := a.Holders(d.Key); got != nil {
		t.Errorf("its own node alone probes it: %v", got)
	}
	a.Join(checker(2, "n2", ""))
	if got := a.Holders(d.Key); len(got) != 2 {
		t.Errorf("with another it is probed by %v", got)
	}
	a.Leave("envoy-2")
	if got := a.Holders(d.Key); got != nil {
		t.Errorf("its own node alone probes it again: %v", got)
	}
}

func TestWhatChangedIsTold(t *testing.T) {
	a := NewAssignment(AssignmentConfig{})
	a.Join(checker(1, "", ""), checker(2, "", ""))
	d := duty(1, "", "")
	a.Put(d)
	if got := a.Changed(); !slices.Equal(got, []string{"envoy-1", "envoy-2"}) {
		t.Errorf("a duty was put, and the changed are %v", got)
	}
	a.Put(d)
	if got := a.Changed(); got != nil {
		t.Errorf("nothing is new, and the changed are %v", got)
	}
	d.Probe.Interval *= 2
	a.Put(d)
	if got := a.Changed(); len(got) != 2 {
		t.Errorf("the probe is another, and the changed are %v", got)
	}
	a.Leave("envoy-1")
	if got := a.Changed(); got != nil {
		t.Errorf("one left whose duty the other has, and the changed are %v", got)
	}
	a.Remove(d.Key)
	if got := a.Changed(); !slices.Equal(got, []string{"envoy-2"}) {
		t.Errorf("the duty ended, and the changed are %v", got)
	}
}

func BenchmarkAssign(b *testing.B) {
	const m, n = 50_000, 1000
	a, duties, checkers := fleetOf(m, n, 3)
	b.Run("everything", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			fleetOf(m, n, 3)
		}
	})
	b.Run("leave-and-join", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			a.Leave(checkers[i%n].ID)
			a.Join(checkers[i%n])
		}
	})
	b.Run("leave", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			a.Leave(checkers[i%n].ID)
			b.StopTimer()
			a.Join(checkers[i%n])
			b.StartTimer()
		}
	})
	b.Run("endpoint", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			a.Remove(duties[i%m].Key)
			a.Put(duties[i%m])
		}
	})
}
