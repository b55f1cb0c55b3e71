package consulwatch

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/catenary-mesh/catenary/internal/facts"
)

func newTestDoubts() *doubts {
	s := testSource()
	return s.newDoubts(&sink{source: s, store: facts.New(), topic: apiHealth})
}

// within reports whether a reading is due within a time.
func (d *doubts) within(t time.Duration) bool {
	select {
	case <-d.due():
		return true
	case <-time.After(t):
		return false
	}
}

// However much happens while readings fail, they are made at their own pace.
func TestReadingsThatFailAreNotHastenedByWhatHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const first, looked = 2 * time.Second, time.Minute
		d := newTestDoubts()
		defer d.end()
		trouble := errors.New("trouble")
		d.failed(trouble)
		attempts := 0
		for begin := time.Now(); time.Since(begin) < first+looked; {
			if d.within(10 * time.Millisecond) {
				if time.Since(begin) > first {
					attempts++
				}
				d.failed(trouble)
			}
			d.raise()
			d.raiseWithin(0)
			d.judge(facts.Outcome{Suspects: attempts + 1, Older: 1})
			d.judge(facts.Outcome{}) // that there is no doubt is no proof that queries are answered
		}
		if least := int(looked / (2 * d.source.limits.RetryMax)); attempts < least || attempts > int(looked/time.Second) {
			t.Errorf("%d attempts in %v", attempts, looked)
		}
	})
}

func TestWhatEndsTheFailingOfReadings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const soon = time.Second
		d := newTestDoubts()
		defer d.end()
		limited := &failure{text: "429", limited: true}
		for name, test := range map[string]struct {
			failure error
			then    func()
			due     bool
		}{
			"Consul answers again":                 {errors.New("trouble"), d.hasten, true},
			"it answers others, and asked to wait": {limited, d.hasten, false},
			"a reading, and then news":             {limited, func() { d.resolved(facts.Outcome{}, reading{seen: true}); d.raise() }, true},
			"a reading without news":               {limited, func() { d.resolved(facts.Outcome{}, reading{seen: true}) }, false},
		} {
			d.succeeded()
			for range 10 { // far apart
				d.failed(test.failure)
			}
			test.then()
			if got := d.within(soon); got != test.due {
				t.Errorf("%s: due is %t", name, got)
			}
		}
	})
}

func TestTheTurnsOfADatacenterGoWithItsLastTopic(t *testing.T) {
	d := newTestDoubts()
	other := d.source.newDoubts(d.to)
	d.end()
	if len(d.source.confirms) != 1 {
		t.Errorf("%d datacenters with a topic", len(d.source.confirms))
	}
	other.end()
	if len(d.source.confirms) != 0 {
		t.Errorf("%d datacenters without one", len(d.source.confirms))
	}
}
