package fleet

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/catenary-mesh/catenary/test/load/wire"
)

// flip is one change of the watched endpoint's health, under way.
type flip struct {
	service []byte
	address []byte
	port    uint64
	healthy bool
	begin   time.Time
	// seen is when each stream saw it, in nanoseconds since the begin; notAwaited for others than those
	// that left counts.
	seen []atomic.Int64
	left atomic.Int64
	done chan struct{}
}

const notAwaited = -1

// newFlip returns a flip that some of all streams are awaited to see.
func newFlip(watched Endpoint, healthy bool, all int, awaited []*stream) *flip {
	f := &flip{
		service: []byte(watched.Service), address: []byte(watched.Address), port: uint64(watched.Port),
		healthy: healthy, seen: make([]atomic.Int64, all), done: make(chan struct{}),
	}
	for i := range f.seen {
		f.seen[i].Store(notAwaited)
	}
	for _, s := range awaited {
		f.seen[s.index].Store(0)
	}
	f.left.Store(int64(len(awaited)))
	return f
}

// see looks whether a set of endpoints has the new state.
func (f *flip) see(stream int, name, body []byte) {
	if !isOf(name, f.service) {
		return
	}
	found, healthy := false, false
	err := wire.EachEndpoint(body, func(e wire.Endpoint) {
		if e.Port == f.port && bytes.Equal(e.Address, f.address) {
			found, healthy = true, e.Health.Healthy()
		}
	})
	if err != nil || (found && healthy) != f.healthy {
		return
	}
	if f.seen[stream].CompareAndSwap(0, int64(time.Since(f.begin))) && f.left.Add(-1) == 0 {
		close(f.done)
	}
}

// flips makes the warm-up's flips and the measured ones, and leaves the endpoint healthy.
func (f *fleet) flips(ctx context.Context, g *generation) error {
	all := g.configured()
	if len(all) == 0 {
		return nil
	}
	healthy := false
	var warm, measured flipTimes
	for range f.Warmup {
		if err := f.one(ctx, all, healthy, &warm); err != nil {
			return err
		}
		healthy = !healthy
	}
	slow, reading := bySpeed(all)
	f.paused.Store(len(slow) > 0)
	begin, err := f.sample()
	if err != nil {
		return err
	}
	bytes, messages := totals(reading)
	for range f.Flips {
		if err := f.one(ctx, reading, healthy, &measured); err != nil {
			return err
		}
		healthy = !healthy
	}
	f.result.Flips = measured.result(f.Flips)
	f.result.Flips.Missed += warm.missed
	if n := float64(f.Flips * len(reading)); n > 0 {
		endBytes, endMessages := totals(reading)
		f.result.Flips.Bytes, f.result.Flips.Messages = float64(endBytes-bytes)/n, float64(endMessages-messages)/n
	}
	if err := f.flipped(begin); err != nil {
		return err
	}
	for _, s := range all {
		f.result.Refused += s.refused.Load()
	}
	if err := f.Flip(ctx, true); err != nil {
		return err
	}
	return f.catchUp(ctx, slow)
}

// flipped notes what the flips took.
func (f *fleet) flipped(begin sample) error {
	end, err := f.sample()
	if err != nil || f.Flips == 0 {
		return err
	}
	n := float64(f.Flips)
	for i, p := range f.Processes {
		r := f.result.Processes[p.Name]
		r.Flipped, r.FlipCPU = end.processes[i].rss, millis(end.processes[i].cpu-begin.processes[i].cpu)/n
		f.result.Processes[p.Name] = r
	}
	f.result.Generator.FlipCPU = millis(end.own-begin.own) / n
	return nil
}

// bySpeed divides the streams into those that stop reading and those that do not.
func bySpeed(all []*stream) (slow, reading []*stream) {
	for _, s := range all {
		if s.slow {
			slow = append(slow, s)
		} else {
			reading = append(reading, s)
		}
	}
	return slow, reading
}

// one makes a flip and waits until all have seen it, or its time is over.
func (f *fleet) one(ctx context.Context, reading []*stream, healthy bool, times *flipTimes) error {
	now := newFlip(f.Watched, healthy, f.Streams, reading)
	now.begin = time.Now()
	f.flip.Store(now)
	if err := f.Flip(ctx, healthy); err != nil {
		return fmt.Errorf("flip the health of %s: %w", f.Watched.Service, err)
	}
	times.write = append(times.write, time.Since(now.begin))
	if len(reading) > 0 {
		wait(ctx, f.FlipTimeout, now.done)
	}
	times.add(now, reading)
	wait(ctx, f.Gap, nil)
	return ctx.Err()
}

// wait waits for a channel, at most so long.
func wait(ctx context.Context, d time.Duration, done <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// flipTimes collects what was seen of flips.
type flipTimes struct {
	any, last, first, write []time.Duration
	missed                  int
}

func (t *flipTimes) add(f *flip, reading []*stream) {
	var last, first time.Duration
	for _, s := range reading {
		d := time.Duration(f.seen[s.index].Load())
		if d == 0 {
			t.missed++
			continue
		}
		t.any = append(t.any, d)
		last = max(last, d)
		if first == 0 || d < first {
			first = d
		}
	}
	if last > 0 {
		t.last, t.first = append(t.last, last), append(t.first, first)
	}
}

func (t *flipTimes) result(n int) FlipResult {
	return FlipResult{
		N: n, Missed: t.missed,
		Any: NewDist(t.any), Last: NewDist(t.last), First: NewDist(t.first), Write: NewDist(t.write),
	}
}
