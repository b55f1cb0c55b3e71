package consulwatch

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// Consul limits how much it is asked by answering some questions and not others: what is answered must
// not hasten what is not, or the limit is never left.
func TestALimitIsNotCutShortByWhatOthersAreAnswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const least = 10 * time.Second
		s := testSource()
		s.limits = Limits{RetryMin: least, RetryMax: least}.withDefaults()
		s.slots = newSlots(1, func() bool { return true })
		for range 20 {
			w := s.newWatch(&sink{source: s, store: facts.New(), topic: apiHealth})
			var waited time.Duration
			var group sync.WaitGroup
			group.Go(func() {
				start := time.Now()
				w.failed(t.Context(), &failure{text: "429", server: true, again: true, limited: true})
				waited = time.Since(start)
			})
			synctest.Wait()
			s.reached(facts.Topic{Kind: "another"})
			group.Wait()
			if waited < least/2 { // the backoff is give or take half
				t.Fatalf("asked again after %s", waited)
			}
		}
	})
}

// Under a rate limit some questions are answered and others are not, for as long as it lasts.
func TestAPartialFailureIsLoggedOnce(t *testing.T) {
	t.Parallel()
	f, out := startFake(t), &log{}
	cfg := f.config()
	cfg.Logger = out.logger()
	r := following(t, f, cfg)
	f.change(func() {
		f.gaveUp = true // what waits is asked again, and meets the fault
		f.fault = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == apiPath {
				http.Error(w, "too many requests", http.StatusTooManyRequests)
			}
			return r.URL.Path == apiPath
		}
	})
	r.eventually(failing(apiHealth, true))
	f.change(func() { f.gaveUp = false })
	for range 4 {
		waits, reads := f.count(apiPath)
		testenv.Eventually(t, soon, func() error {
			f.set("/v1/catalog/services", `{"api":[]}`) // answered, while the other is not
			if w, r := f.count(apiPath); w+r == waits+reads {
				return fmt.Errorf("%d attempts", w+r)
			}
			return nil
		})
	}
	if warned, over := out.lines("cannot be read"), out.lines("answers again"); warned != 1 || over != 0 {
		t.Errorf("%d warnings of one limit, and %d lines that it is over", warned, over)
	}
	f.change(func() { f.fault = nil })
	r.eventually(failing(apiHealth, false))
	testenv.Eventually(t, soon, func() error {
		if over := out.lines("answers again"); over != 1 {
			return fmt.Errorf("%d lines that it is over", over)
		}
		return nil
	})
}
