package consulwatch

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// Consul limits how much it is asked by answering some questions and not others: what is answered must
// not hasten what is not, or the limit is never left.
func TestALimitIsNotCutShortByWhatOthersAreAnswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const least = 10 * time.Second
		s := &Source{log: hclog.NewNullLogger(), metrics: noMetrics{}, limits: Limits{RetryMin: least, RetryMax: least}.withDefaults()}
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
			s.reached()
			group.Wait()
			if waited < least/2 { // the backoff is give or take half
				t.Fatalf("asked again after %s", waited)
			}
		}
	})
}
