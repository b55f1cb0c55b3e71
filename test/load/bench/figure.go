package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/catenary-mesh/catenary/test/load/fleet"
)

// figure is a row of the table: what is read off a run. Less is better, but for those that only tell how
// a run was.
type figure struct {
	name    string
	unit    string
	of      func(*fleet.Result) float64
	context bool
}

func figures() []figure {
	return []figure{
		{name: "CPU per flip, the xDS server", unit: "ms", of: cpuPerFlip},
		{name: "CPU per flip, with the Consul behind it", unit: "ms", of: cpuOfAll},
		{name: "memory per stream, the xDS server", unit: "KiB", of: memoryOfServer},
		{name: "memory per stream, both processes", unit: "KiB", of: memoryPerStream},
		{name: "flip to last stream, p50", unit: "ms", of: func(r *fleet.Result) float64 { return r.Flips.Last.P50 }},
		{name: "flip to last stream, p99", unit: "ms", of: func(r *fleet.Result) float64 { return r.Flips.Last.P99 }},
		{name: "flip to any stream, p50", unit: "ms", of: func(r *fleet.Result) float64 { return r.Flips.Any.P50 }},
		{name: "flip to any stream, p99", unit: "ms", of: func(r *fleet.Result) float64 { return r.Flips.Any.P99 }},
		{name: "connect, p50", unit: "ms", of: func(r *fleet.Result) float64 { return r.Connect.P50 }},
		{name: "whole configuration, p50 of the streams", unit: "ms", of: func(r *fleet.Result) float64 { return r.FirstFull.P50 }},
		{name: "whole configuration, p99 of the streams", unit: "ms", of: func(r *fleet.Result) float64 { return r.FirstFull.P99 }},
		{name: "whole configuration, all streams", unit: "ms", of: func(r *fleet.Result) float64 { return r.AllFullMS }},
		{name: "all streams cut, until all are configured again", unit: "ms", of: backAfterCut},
		{name: "bytes of a whole configuration", unit: "B", of: func(r *fleet.Result) float64 { return r.StartBytes }},
		{name: "bytes per flip and stream", unit: "B", of: func(r *fleet.Result) float64 { return r.Flips.Bytes }},
		{name: "messages per flip and stream", of: func(r *fleet.Result) float64 { return r.Flips.Messages }},
		{name: "bytes to a stream that comes back with its versions", unit: "B", of: resumed},
		{name: "memory before the first stream, both processes", unit: "MiB", of: memoryBefore},
		{name: "CPU at rest, in a second, both processes", unit: "ms", of: cpuAtRest},
		{name: "the write to Consul, p50", unit: "ms", context: true, of: func(r *fleet.Result) float64 { return r.Flips.Write.P50 }},
		{name: "the load generator's own CPU per flip", unit: "ms", context: true, of: func(r *fleet.Result) float64 { return r.Generator.FlipCPU }},
	}
}

// serving is the process that serves xDS.
func serving(r *fleet.Result) fleet.ProcessResult {
	if p, ok := r.Processes["catenary"]; ok {
		return p
	}
	return r.Processes["consul"]
}

func cpuPerFlip(r *fleet.Result) float64 { return serving(r).FlipCPU }

func memoryOfServer(r *fleet.Result) float64 {
	return (serving(r).Settled - serving(r).Before) / float64(r.Streams)
}

func cpuOfAll(r *fleet.Result) float64 {
	return sum(r, func(p fleet.ProcessResult) float64 { return p.FlipCPU })
}

func cpuAtRest(r *fleet.Result) float64 {
	return sum(r, func(p fleet.ProcessResult) float64 { return p.IdleCPU })
}

func memoryBefore(r *fleet.Result) float64 {
	const kibInMiB = 1024
	return sum(r, func(p fleet.ProcessResult) float64 { return p.Before }) / kibInMiB
}

func memoryPerStream(r *fleet.Result) float64 {
	return sum(r, func(p fleet.ProcessResult) float64 { return p.Settled - p.Before }) / float64(r.Streams)
}

func sum(r *fleet.Result, of func(fleet.ProcessResult) float64) (total float64) {
	for _, p := range r.Processes {
		total += of(p)
	}
	return total
}

func backAfterCut(r *fleet.Result) float64 {
	var all float64
	for _, c := range r.Reconnects {
		all += c.AllFullMS
	}
	return all / float64(max(len(r.Reconnects), 1))
}

func resumed(r *fleet.Result) float64 {
	if r.Resume == nil {
		return 0
	}
	return r.Resume.Bytes
}

// spread is the figure's median over the rounds, with the least and the most.
type spread struct{ p50, least, most float64 }

func (f figure) spread(rounds []round, s server) spread {
	var values []float64
	for _, r := range rounds {
		values = append(values, f.of(r.results[s.name]))
	}
	slices.Sort(values)
	n := len(values)
	if n == 0 {
		return spread{}
	}
	return spread{(values[(n-1)/2] + values[n/2]) / 2, values[0], values[n-1]}
}

// cell is how a spread stands in the table.
func (s spread) cell() string {
	if s.least == s.most {
		return number(s.p50)
	}
	return fmt.Sprintf("%s (%s to %s)", number(s.p50), number(s.least), number(s.most))
}

// number has three digits that count, or all before the point.
func number(x float64) string {
	switch {
	case x == 0:
		return "0"
	case x >= 99.95 || x <= -99.95:
		return fmt.Sprintf("%.0f", x)
	case x >= 9.995:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}

// times says how many times as much the first is as the second.
func times(a, b spread) string {
	if a.p50 <= 0 || b.p50 <= 0 {
		return "-"
	}
	return cmp.Or(number(a.p50/b.p50), "0") + "×"
}
