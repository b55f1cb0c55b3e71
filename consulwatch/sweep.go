package consulwatch

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// sweep has the whole read from time to time where events do not tell all: that an instance which spoke
// the mesh protocol itself does so no more.
func (w *streamWatch) sweep(news ...*facts.Instance) {
	native := func(in *facts.Instance) bool { return in != nil && in.Service.Connect.Native }
	if w.to.topic.Kind == facts.TopicConnect && w.swept == nil && slices.ContainsFunc(news, native) {
		wait := w.source.limits.Wait
		w.swept = time.NewTimer(wait - rand.N(wait/sweepSpread))
	}
}

// sweepAll is sweep for all there are.
func (w *streamWatch) sweepAll() {
	list, _ := w.to.store.View().Instances(w.to.topic)
	w.sweep(list...)
}

// sweepSpread is the part of [Limits.Wait] over which sweeps are spread.
const sweepSpread = 5

func (w *streamWatch) sweepDue() <-chan time.Time {
	if w.swept == nil {
		return nil
	}
	return w.swept.C
}
