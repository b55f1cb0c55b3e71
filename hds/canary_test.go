package hds

import (
	"fmt"
	"testing"
	"time"
)

// mine is a canary with one shape, and a clock.
type mine struct {
	t     *testing.T
	c     *Canary
	now   time.Time
	shape Shape
}

func newMine(t *testing.T) *mine {
	return &mine{t: t, c: NewCanary(time.Second), now: time.Unix(1_000_000, 0), shape: ShapeOf(duty(1, "", ""), "1.40.0")}
}

func (m *mine) admit(checker string, want bool) {
	m.t.Helper()
	if ok, why := m.c.Admit(m.now, m.shape, checker); ok != want || (why == "") != want {
		m.t.Fatalf("%s is admitted: %t, %q", checker, ok, why)
	}
}

// send gives the shape to a checker.
func (m *mine) send(checker string) {
	m.t.Helper()
	m.admit(checker, true)
	m.c.Sent(m.now, checker, map[Shape]bool{m.shape: true})
}

// dies has a checker end at once of what it was sent.
func (m *mine) dies(checker string) {
	m.t.Helper()
	m.send(checker)
	m.now = m.now.Add(100 * time.Millisecond)
	m.c.Gone(m.now, checker, Left)
}

func TestANewShapeGoesToOneCheckerFirst(t *testing.T) {
	m := newMine(t)
	m.admit("a", true)
	m.admit("a", true)
	m.admit("b", false)
	if !m.c.Gone(m.now, "a", Left) {
		t.Error("the trial ended unnoticed")
	}
	m.admit("b", true)
	m.admit("a", false)
	if m.c.Prove("b") {
		t.Error("what was not sent is proven")
	}
	m.send("b")
	if !m.c.Prove("b") || m.c.Prove("b") {
		t.Error("what is proven is news once")
	}
	m.admit("a", true)
	m.admit("c", true)
	m.c.Gone(m.now, "c", Left)
	m.admit("d", true)
}

func TestAShapeThatEndsThreeCheckersIsGivenToNobody(t *testing.T) {
	m := newMine(t)
	for _, id := range []string{"a", "b", "c"} {
		m.dies(id)
	}
	m.admit("d", false)
	if got := m.c.Blocked(m.now); len(got) != 1 || got[0] != m.shape {
		t.Errorf("blocked are %v", got)
	}
	m.now = m.now.Add(penance)
	m.admit("d", true)
	if got := m.c.Blocked(m.now); len(got) != 0 {
		t.Errorf("blocked are %v", got)
	}
}

// What ends a checker does so as it is read, or at the first report.
func TestWhoLeavesForAnotherReasonIsNoStrike(t *testing.T) {
	for name, leave := range map[string]func(m *mine, id string){
		"late": func(m *mine, id string) {
			m.send(id)
			m.now = m.now.Add(m.c.window + time.Millisecond)
			m.c.Gone(m.now, id, Left)
		},
		"in order": func(m *mine, id string) {
			m.send(id)
			m.c.Gone(m.now, id, Orderly)
		},
		"before it was sent": func(m *mine, id string) {
			m.admit(id, true)
			m.c.Gone(m.now, id, Left)
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMine(t)
			for i := range 12 {
				leave(m, fmt.Sprint("c", i))
			}
			m.admit("last", true)
		})
	}
}

func TestWhoLeavesWithOthersIsNoStrikeUnlessThatGoesOn(t *testing.T) {
	m := newMine(t)
	m.c.Gone(m.now, "bystander", Left)
	m.dies("a") // just after another
	m.dies("b")
	m.c.Gone(m.now, "bystander", Left) // just before another
	m.dies("c")
	m.dies("d") // the first that counts
	for i := range 2 {
		m.c.Gone(m.now, "bystander", Left)
		m.dies(fmt.Sprint("f", i))
	}
	m.c.Gone(m.now, "bystander", Left)
	m.admit("g", false)
}

// Whoever has one identity can come and go as often as it likes.
func TestOneIdentityKeepsAShapeFromItselfOnly(t *testing.T) {
	m := newMine(t)
	deaths := 0
	for range 600 {
		if ok, _ := m.c.Admit(m.now, m.shape, "hostile"); ok {
			deaths++
			m.dies("hostile")
		}
		m.now = m.now.Add(time.Second)
	}
	if deaths > 4 {
		t.Errorf("a checker that ends of a shape was given it %d times in ten minutes", deaths)
	}
	m.send("honest")
	m.c.Prove("honest")
	m.admit("hostile", true)
	m.admit("other", true)
}

func TestWhoHoldsATrialUpLosesItsTurn(t *testing.T) {
	m := newMine(t)
	m.send("hostile")
	m.now = m.now.Add(m.c.patience)
	m.admit("honest", false)
	m.now = m.now.Add(time.Millisecond)
	m.send("honest")
	m.admit("hostile", false)
	m.c.Prove("honest")
	m.admit("hostile", true)
}

// An Envoy that refuses a specifier says nothing, goes on with the old one, and reports that.
func TestAShapeThatCheckersRefuseIsGivenToNobody(t *testing.T) {
	m := newMine(t)
	for i := range maxStrikes {
		id := fmt.Sprint("c", i)
		m.send(id)
		m.now = m.now.Add(3 * time.Second)
		m.c.Gone(m.now, id, Broken)
	}
	m.admit("another", false)
	m.now = m.now.Add(shortPenance) // they live
	m.send("another")
	m.c.Prove("another")
	m.admit("c0", true)
}

func TestATrialThatIsNotSentAfterAllIsForOthers(t *testing.T) {
	m := newMine(t)
	m.admit("a", true)
	m.c.Sent(m.now, "a", nil)
	if m.c.Trying("a") || m.c.Prove("a") {
		t.Error("what is tried was never sent")
	}
	m.admit("b", true)
}

func TestAShapeThatEndsCheckersIsFoundAmongOthers(t *testing.T) {
	now := time.Unix(1000, 0)
	c := NewCanary(time.Second)
	var shapes []Shape
	for i := range 300 {
		s := ShapeOf(duty(1, "", ""), "1.40.0")
		s.Probe.Port = uint32(i + 1)
		shapes = append(shapes, s)
	}
	deadly := shapes[77]
	ended := 0
	for round := range 600 {
		checker := duty(round, "", "").Address
		sent := map[Shape]bool{}
		for _, s := range shapes {
			sent[s], _ = c.Admit(now, s, checker)
		}
		c.Sent(now, checker, sent)
		if sent[deadly] {
			ended++
			c.Gone(now, checker, Left)
		} else {
			c.Prove(checker)
		}
	}
	if ended != maxStrikes {
		t.Errorf("%d checkers ended", ended)
	}
	for _, s := range shapes {
		if ok, why := c.Admit(now, s, "last"); ok == (s == deadly) {
			t.Errorf("%+v is admitted: %t, %q", s, ok, why)
		}
	}
	if ok, _ := c.Admit(now.Add(penance), deadly, "later"); !ok {
		t.Error("it is never tried again")
	}
}

func TestShapesThatSomebodyMakesUpDoNotAccumulate(t *testing.T) {
	m := newMine(t)
	for _, id := range []string{"a", "b", "c"} {
		m.dies(id)
	}
	proven := m.shape
	proven.Version = "1.39.0"
	m.c.Admit(m.now, proven, "a")
	m.c.Sent(m.now, "a", map[Shape]bool{proven: true})
	m.c.Prove("a")
	for i := range maxShapes + 1000 {
		s := m.shape
		s.Version = fmt.Sprint("1.40.", i)
		m.c.Admit(m.now, s, "hostile")
		m.c.Gone(m.now, "hostile", Orderly)
	}
	if n := len(m.c.shapes); n > maxShapes {
		t.Errorf("%d shapes are known", n)
	}
	if known := m.c.shapes[proven]; known == nil || !known.proven {
		t.Error("what is proven is forgotten for what somebody makes up")
	}
	m.admit("d", false) // what ends checkers is not forgotten for them
	for i := range 10 * maxMarks {
		m.now = m.now.Add(time.Hour)
		m.dies(fmt.Sprint("x", i))
	}
	if n := len(m.c.shapes[m.shape].marks); n > maxMarks {
		t.Errorf("%d marks on one shape", n)
	}
}
