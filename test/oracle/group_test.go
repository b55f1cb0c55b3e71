package oracle_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/entry"
)

// tally counts what was compared.
type tally struct {
	chains, refusedChains, nearly, respelled atomic.Int64
	accepted, unread                         atomic.Int64
	invalid, uncompiled                      atomic.Int64
	readBack                                 atomic.Int64
}

func (t *tally) String() string {
	return fmt.Sprintf("%d chains (%d of them refused by both, %d equal but for the weights of deep splitters, "+
		"%d equal but for their spelling); %d changes accepted by both, %d refused: %d not readable, %d not valid, "+
		"%d for chains that do not compile; %d entries read back",
		t.chains.Load(), t.refusedChains.Load(), t.nearly.Load(), t.respelled.Load(), t.accepted.Load(),
		t.unread.Load()+t.invalid.Load()+t.uncompiled.Load(), t.unread.Load(), t.invalid.Load(),
		t.uncompiled.Load(), t.readBack.Load())
}

// trial is one comparison and what it needs: the entries, and a change of them or a question.
type trial struct {
	docs     []object
	change   *change
	question *question
	// shouting is that of the group.
	shouting float64
}

// difference is a trial that Consul and we see differently.
type difference struct {
	trial
	what string
	// theirs is what Consul said.
	theirs answer
}

// Error implements error.
func (d *difference) Error() string { return d.what }

// group is a few services that refer to each other and to no others.
type group struct {
	*generator
	judge *judge
	tally *tally
	world *world
}

// change makes a change in Consul and here. It reports whether it was accepted.
func (g *group) change(c change) (bool, error) {
	v, refusal, err := attempt(g.judge, g.world, c)
	if err != nil {
		return false, err
	}
	v.mixedCase = g.shouting > 0
	if what := v.differs(refusal); what != "" {
		return false, &difference{trial: trial{docs: g.world.all(), change: &c, shouting: g.shouting}, what: what, theirs: answer{refusal: refusal}}
	}
	if refusal == "" {
		g.world.apply(c, v.entry)
		v.grounds = accepted
	} else if v.grounds == accepted {
		v.grounds = uncompiled
	}
	g.tally.count(v.grounds)
	return refusal == "", nil
}

func (t *tally) count(by grounds) {
	switch by {
	case accepted:
		t.accepted.Add(1)
	case unreadable:
		t.unread.Add(1)
	case invalid:
		t.invalid.Add(1)
	case uncompiled:
		t.uncompiled.Add(1)
	}
}

// attempt asks both what they make of a change, in which only Consul takes part.
func attempt(j *judge, w *world, c change) (v verdict, refusal string, err error) {
	if v, err = w.judge(c); err != nil {
		return v, "", err
	}
	refusal, err = j.apply(c)
	return v, refusal, err
}

// ask compares one chain.
func (g *group) ask(q question) error {
	var theirs answer
	var err error
	if theirs.chain, theirs.refusal, err = g.judge.chain(q); err != nil {
		return err
	}
	how, what := compare(q, g.world.set(), theirs, g.judge.trustDomain)
	if how == different {
		return &difference{trial: trial{docs: g.world.all(), question: &q}, what: what, theirs: theirs}
	}
	g.tally.chains.Add(1)
	switch {
	case theirs.chain == nil:
		g.tally.refusedChains.Add(1)
	case how == nearly:
		g.tally.nearly.Add(1)
	case how == respelled:
		g.tally.respelled.Add(1)
	}
	return nil
}

// askAll asks for each chain of the group a few times.
func (g *group) askAll(times int) error {
	for range times {
		for _, name := range g.names {
			if err := g.ask(g.question(name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// settle writes the first entries, what is referred to before what refers to it, tries again what was
// refused, and compares all chains.
func (g *group) settle() error {
	var refused []change
	try := func(c change) error {
		ok, err := g.change(c)
		if !ok && err == nil {
			refused = append(refused, c)
		}
		return err
	}
	for _, kind := range []struct {
		chain.Kind
		odds float64
	}{
		{chain.KindServiceDefaults, 0.7},
		{chain.KindServiceResolver, 0.6},
		{chain.KindServiceSplitter, 0.5},
		{chain.KindServiceRouter, 0.4},
	} {
		for _, name := range g.names {
			if !g.odds(kind.odds) {
				continue
			}
			if err := try(write(g.of(kind.Kind, name))); err != nil {
				return err
			}
		}
	}
	for _, c := range refused {
		if _, err := g.change(c); err != nil {
			return err
		}
	}
	return g.askAll(2)
}

// stir makes random changes and compares some chains after each that is accepted.
func (g *group) stir() error {
	for range 10 {
		c := write(g.entry())
		if g.odds(0.25) {
			c.doc = nil
		}
		ok, err := g.change(c)
		if err != nil {
			return err
		}
		for i := 0; ok && i < 3; i++ {
			if err := g.ask(g.question(g.own())); err != nil {
				return err
			}
		}
	}
	return g.askAll(1)
}

// leave deletes all entries of the group, what refers before what is referred to, as far as they can be
// deleted.
func (g *group) leave() error {
	for last := -1; ; {
		left := 0
		for _, r := range slices.Backward(g.world.refs()) {
			if r.kind == chain.KindProxyDefaults {
				continue
			}
			ok, err := g.change(change{ref: r})
			if err != nil {
				return err
			}
			if !ok {
				left++
			}
		}
		if left == 0 || left == last {
			return nil
		}
		last = left
	}
}

// readBack compares the entries as they were written with the same as Consul gives them back, by the
// chains that are made of them.
func (g *group) readBack(stored map[ref]json.RawMessage) error {
	back := newWorld()
	for r, doc := range g.world.docs {
		raw, ok := stored[r]
		if !ok {
			return &difference{trial: trial{docs: []object{doc}}, what: "Consul accepted this entry and does not list it"}
		}
		e, problems := entry.DecodeJSON(raw)
		if e == nil || len(problems) > 0 {
			return &difference{trial: trial{docs: []object{doc}}, what: fmt.Sprintf(
				"Consul gives it back so that it is not understood: %v: %s", problems, raw)}
		}
		back.put(doc, e)
		g.tally.readBack.Add(1)
	}
	for _, name := range g.names {
		q := g.question(name)
		a, _ := chain.Compile(q.request(g.judge.trustDomain), g.world.set())
		b, _ := chain.Compile(q.request(g.judge.trustDomain), back.set())
		ours, err := json.Marshal(a)
		if err != nil {
			return err
		}
		theirs, err := json.Marshal(b)
		if err != nil {
			return err
		}
		if string(ours) != string(theirs) {
			return &difference{trial: trial{docs: g.world.all()}, what: fmt.Sprintf(
				"the chain of %+v of the entries as written is not that of the entries as Consul gives them back: %s", q, excerpt(ours, theirs))}
		}
	}
	return nil
}
