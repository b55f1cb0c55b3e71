package fleet

import (
	"context"
	"time"
)

// pauseReading waits as long as the slow streams do not read.
func (f *fleet) pauseReading(ctx context.Context) {
	if !f.paused.Load() {
		return
	}
	select {
	case <-f.resumed:
	case <-ctx.Done():
	}
}

// catchUp lets the slow streams read again, and looks whether they get what comes then.
func (f *fleet) catchUp(ctx context.Context, slow []*stream) error {
	if len(slow) == 0 {
		return nil
	}
	begin := time.Now()
	f.paused.Store(false)
	f.resume()
	caughtUp := awaitQuiet(ctx, slow).Sub(begin)
	var times flipTimes
	if err := f.one(ctx, slow, false, &times); err != nil {
		return err
	}
	f.result.Slow = &SlowResult{Streams: len(slow), CaughtUp: len(slow) - times.missed, CatchUpMS: millis(caughtUp)}
	return f.Flip(ctx, true)
}
