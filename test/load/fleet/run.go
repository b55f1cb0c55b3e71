package fleet

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// fleet is a run under way.
type fleet struct {
	Config
	result Result

	// flip is the one under way, keeping says that endpoints are kept to be compared.
	flip    atomic.Pointer[flip]
	keeping atomic.Bool

	// paused says that the slow streams do not read, until resumed is closed by resume.
	paused  atomic.Bool
	resumed chan struct{}
	resume  func()

	mu     sync.Mutex
	errors map[string]bool
}

// maxErrors is how many different errors a result holds.
const maxErrors = 5

// Run measures a server, until it is done or the context ends. The error is about the run; whether the
// server did what it should is in [Result.Failed].
func Run(ctx context.Context, c Config) (*Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := &fleet{Config: c, resumed: make(chan struct{}), errors: map[string]bool{}}
	f.resume = sync.OnceFunc(func() { close(f.resumed) })
	f.result = Result{Address: c.Address, Streams: c.Streams, Processes: map[string]ProcessResult{}}
	f.keeping.Store(true)
	if err := f.run(ctx); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("the run was ended: %w", err)
	}
	for text := range f.errors {
		f.result.Errors = append(f.result.Errors, text)
	}
	return &f.result, nil
}

func (f *fleet) run(ctx context.Context) error {
	before, err := f.sample()
	if err != nil {
		return err
	}
	g := f.open(ctx, nil)
	defer func() {
		f.resume()
		g.close()
	}()
	f.result.AllFullMS = millis(g.awaitFull(ctx))
	if err := f.started(ctx, g, before); err != nil {
		return err
	}
	if err := f.flips(ctx, g); err != nil {
		return err
	}
	for range f.Reconnects {
		g.close()
		wait(ctx, time.Second, nil)
		g = f.open(ctx, nil)
		f.reconnected(ctx, g)
	}
	if f.Resume {
		g.close()
		earlier := g
		g = f.open(ctx, earlier)
		f.resumedWith(ctx, g)
	}
	return nil
}

// started notes what the begin took and, after a time of quiet, what all of them hold.
func (f *fleet) started(ctx context.Context, g *generation, before sample) error {
	connected, err := f.sample()
	if err != nil {
		return err
	}
	r, full := &f.result, g.configured()
	connect, whole := times(full)
	r.Full, r.Connect, r.FirstFull = len(full), NewDist(connect), NewDist(whole)
	bytes, messages := totals(full)
	n := float64(max(len(full), 1))
	r.StartBytes, r.StartMessages = float64(bytes)/n, float64(messages)/n
	r.StartByType = map[string]int64{}
	for _, s := range full {
		for k := range kinds {
			r.StartByType[k.String()] += s.bytes[k].Load()
		}
	}
	quiet, err := f.settle(ctx)
	if err != nil {
		return err
	}
	f.keeping.Store(false)
	f.compareWith(full)
	for i, p := range f.Processes {
		b, c, q := before.processes[i], connected.processes[i], quiet[1].processes[i]
		idle := quiet[1].at.Sub(quiet[0].at).Seconds()
		r.Processes[p.Name] = ProcessResult{
			Before: b.rss, Connected: c.rss, Settled: q.rss, StartCPU: millis(c.cpu - b.cpu),
			IdleCPU: millis(q.cpu-quiet[0].processes[i].cpu) / idle,
		}
	}
	r.Generator.StartCPU = millis(connected.own - before.own)
	return nil
}

// settle lets time pass in which nothing happens, and measures the second half of it.
func (f *fleet) settle(ctx context.Context) (quiet [2]sample, err error) {
	for i := range quiet {
		wait(ctx, f.Settle/2, nil)
		if quiet[i], err = f.sample(); err != nil {
			return quiet, err
		}
	}
	return quiet, nil
}

// compareWith notes the endpoints that the streams hold, for a comparison with another server's.
func (f *fleet) compareWith(full []*stream) {
	f.result.Endpoints = map[string][]string{}
	sets, held := 0, 0
	for _, s := range full {
		list := s.normalised()
		f.result.Endpoints[s.node.ID] = list
		held += len(list)
		sets += len(s.bodies)
	}
	n := float64(max(len(full), 1))
	f.result.ClustersPerStream, f.result.EndpointsPerStream = float64(sets)/n, float64(held)/n
}

func (f *fleet) reconnected(ctx context.Context, g *generation) {
	all := g.awaitFull(ctx)
	full := g.configured()
	_, whole := times(full)
	f.result.Reconnects = append(f.result.Reconnects, ReconnectResult{
		AllFullMS: millis(all), FirstFull: NewDist(whole), Full: len(full),
	})
}

func (f *fleet) resumedWith(ctx context.Context, g *generation) {
	awaitQuiet(ctx, g.streams)
	bytes, messages := totals(g.streams)
	n := float64(f.Streams)
	r := &ResumeResult{Bytes: float64(bytes) / n, Messages: float64(messages) / n}
	for _, s := range g.streams {
		r.MaxBytes = max(r.MaxBytes, s.bytesRead())
		r.Resources += float64(s.resources.Load()) / n
	}
	f.result.Resume = r
}

// failed notes an error of a stream.
func (f *fleet) failed(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.result.StreamErrors++
	if len(f.errors) < maxErrors {
		f.errors[err.Error()] = true
	}
}

// header is what every call is sent with.
func (f *fleet) header() map[string]string {
	if f.Token == "" {
		return nil
	}
	return map[string]string{"x-consul-token": f.Token}
}
