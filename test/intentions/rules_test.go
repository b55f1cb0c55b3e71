//go:build e2e

package intentions_test

import (
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/evict"
)

// change is rules that are replaced, and what becomes of a request of a that was open before.
type change struct {
	name     string
	was, is  []evict.Rule
	survives bool
}

func changes() []change {
	everybody := func(rights ...evict.Right) []evict.Rule {
		return []evict.Rule{{Pattern: "*", Keep: true, Rights: rights}}
	}
	only := func(pattern string, keep bool) []evict.Rule {
		return []evict.Rule{{Pattern: pattern, Keep: keep}, {Pattern: "*", Keep: !keep}}
	}
	r1, r2, barred := evict.Right{Name: "r1"}, evict.Right{Name: "r2"}, evict.Right{Name: "r1", But: []string{"b1"}}
	return []change{
		{"the exact identity is kept", everybody(), only(spiffe("a"), true), true},
		{"the exact identity is ended", everybody(), only(spiffe("a"), false), false},
		{"another identity is kept", everybody(), only(spiffe("b"), true), false},
		{"the beginning of an identity is not it", everybody(), only(spiffe(""), true), false},
		{"a pattern with a beginning and an end", everybody(), only("spiffe://*/svc/a", true), true},
		{"a pattern with another end", everybody(), only("spiffe://*/svc/aa", true), false},
		{"a pattern that is longer than the identity", everybody(), only(spiffe("a")+"*a", true), false},
		{"the first that matches decides", everybody(), append(only(spiffe("a"), true), only(spiffe("a"), false)...), true},
		{"nothing matches", everybody(), []evict.Rule{{Pattern: "x", Keep: true}}, false},
		{"everything becomes one right", everybody(), everybody(r1), false},
		{"one right becomes everything", everybody(r1), everybody(), true},
		{"a right comes", everybody(r1), everybody(r2, r1), true},
		{"a right goes", everybody(r1, r2), everybody(r2), false},
		{"a bar comes", everybody(r1), everybody(barred), false},
		{"a bar goes", everybody(barred), everybody(r1), true},
		{"a right comes with a bar", everybody(r2), everybody(r2, barred), true},
		{"a right moves to another pattern", everybody(r1), append([]evict.Rule{{Pattern: spiffe("a"), Keep: true, Rights: []evict.Right{r1}}}, only("*", false)...), true},
		{"rules change for another", everybody(r1), append([]evict.Rule{{Pattern: spiffe("b")}}, everybody(r1)...), true},
	}
}

func TestTheRulesOfTheModule(t *testing.T) {
	holdEnvoysTo(t, behaviours{"decide": rulesDecide})
}

// rulesDecide has one Envoy with a door for each case.
func rulesDecide(t *testing.T, r *rig) {
	cases := changes()
	streams := make([]*held, len(cases))
	doors := make([]*door, len(cases))
	for i, c := range cases {
		doors[i] = r.door(c.name)
		doors[i].openHTTP("a")
		doors[i].judge(c.was)
		h2 := doors[i].caller("a", "h2")
		h2.awaits(t, 200)
		streams[i] = h2.stream(t)
	}
	for i, c := range cases {
		doors[i].judge(c.is)
	}
	end := time.Now().Add(limit)
	for i, c := range cases {
		if !c.survives && !streams[i].within(time.Until(end)) {
			t.Errorf("%s: the stream is open after %v", c.name, limit)
		}
	}
	for i, c := range cases {
		if c.survives && !streams[i].open() {
			t.Errorf("%s: the stream has ended", c.name)
		}
	}
	r.accepted(t)
}
