package fleet

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// generation is all streams, from their begin to the cut that ends them.
type generation struct {
	fleet   *fleet
	streams []*stream
	begin   time.Time
	left    atomic.Int64
	full    chan struct{}
	wg      sync.WaitGroup
	// resumed says that the streams began with what they had before, so that nothing may come.
	resumed bool
}

// open begins all streams at once. With an earlier generation they resume with what that one held.
func (f *fleet) open(ctx context.Context, earlier *generation) *generation {
	g := &generation{fleet: f, begin: time.Now(), full: make(chan struct{}), resumed: earlier != nil}
	g.left.Store(int64(f.Streams))
	for i := range f.Streams {
		s := &stream{fleet: f, generation: g, index: i, slow: i < f.Slow, bodies: map[string][]byte{}}
		s.envoy = envoy{
			node: f.Node(i), clusters: f.Clusters, refuseEvery: f.RefuseEvery,
			became: s.configured, saw: s.sawEndpoints,
		}
		g.streams = append(g.streams, s)
	}
	for i, s := range g.streams {
		var before *stream
		if earlier != nil {
			before = earlier.streams[i]
		}
		g.wg.Go(func() {
			if err := s.run(ctx, before); err != nil {
				s.failed = true
				f.failed(err)
				if !s.envoy.full.Load() {
					g.oneFull() // there is no use in waiting for it
				}
			}
		})
	}
	return g
}

// awaitFull waits until all are configured, or their time is over, and returns how long it took.
func (g *generation) awaitFull(ctx context.Context) time.Duration {
	wait(ctx, g.fleet.FullTimeout, g.full)
	return time.Since(g.begin)
}

// close cuts all streams and returns when they have ended. It notes how far those got that were not
// configured.
func (g *generation) close() {
	for _, s := range g.streams {
		s.close()
	}
	g.wg.Wait()
	for _, s := range g.streams {
		if !g.resumed && !s.failed && !s.envoy.full.Load() {
			g.fleet.failed(fmt.Errorf("%s was not configured in time: %s", s.node.ID, s.progress()))
		}
	}
}

// oneFull is called by each stream whose configuration is whole.
func (g *generation) oneFull() {
	if g.left.Add(-1) == 0 {
		close(g.full)
	}
}

// configured returns the streams that have their whole configuration.
func (g *generation) configured() (full []*stream) {
	for _, s := range g.streams {
		if s.envoy.full.Load() {
			full = append(full, s)
		}
	}
	return full
}

// times returns how long each of the streams took to connect, and from the dial to its configuration.
func times(streams []*stream) (connect, whole []time.Duration) {
	for _, s := range streams {
		connect = append(connect, time.Duration(s.connect.Load()))
		whole = append(whole, time.Duration(s.whole.Load()))
	}
	return connect, whole
}

// totals returns what the streams have read.
func totals(streams []*stream) (bytes, messages int64) {
	for _, s := range streams {
		bytes += s.bytesRead()
		messages += s.messages.Load()
	}
	return bytes, messages
}

// The time in which nothing must come until a fleet counts as quiet, and the most it is waited for.
const (
	quietFor  = time.Second
	quietMost = 30 * time.Second
	quietPoll = 50 * time.Millisecond
)

// awaitQuiet waits until nothing comes any more, and returns when the last thing came.
func awaitQuiet(ctx context.Context, streams []*stream) time.Time {
	last, seen := time.Now(), int64(-1)
	for end := last.Add(quietMost); time.Since(last) < quietFor && time.Now().Before(end) && ctx.Err() == nil; {
		if n, _ := totals(streams); n != seen {
			last, seen = time.Now(), n
		}
		wait(ctx, quietPoll, nil)
	}
	return last
}
