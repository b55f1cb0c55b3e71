package metrics

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Watch is what is measured of one topic that a source follows.
type Watch struct {
	// Topic is what it is about, with the name of what it is about of which there may be thousands left out:
	// health, or entries/mesh.
	Topic string
	// Mode is how it is followed now, State how well it is known.
	Mode, State string
	// Server tells the events; empty when nobody does.
	Server string
	// Index is the source's index of what was last read or heard.
	Index uint64
	// Age is how long ago that was; negative when it never was.
	Age time.Duration
	// Needs is by how many it is needed.
	Needs int
}

// Watches has the watches measured whenever the page is asked for. There may be one for each of thousands of
// services, so the page has them together: by kind of topic, mode, state and server, each of which are few.
// It is called once.
func (m *Metrics) Watches(list func() []Watch) { m.registry.MustRegister(newWatches(list)) }

// watches collects what the page says of the watches of a moment.
type watches struct {
	list                               func() []Watch
	count, age, index, needs, byServer *prometheus.Desc
}

func newWatches(list func() []Watch) *watches {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "source", name), help, labels, nil)
	}
	return &watches{
		list: list,
		count: describe("watches",
			"Topics that are followed, by what they are about, how they are followed (streaming is by events, blocking by queries) "+
				"and how well they are known (current, unread, doubtful, failing, off).", "topic", "mode", "state"),
		age: describe("watch_age_seconds",
			"How long ago the topic was heard of that was not heard of for longest, by what topics are about and how they are followed. "+
				"Without a change an event stream is silent for ever, and a query for up to 319 seconds.", "topic", "mode"),
		index: describe("watch_index",
			"The newest index of the source that was read or heard, by what topics are about: where replicas differ for long, one lags.", "topic"),
		needs: describe("watch_needs",
			"By how many the topics are needed, clients with the same upstreams counting as one, by what topics are about.", "topic"),
		byServer: describe("server_watches",
			"Topics whose events a server of the source tells.", "server"),
	}
}

// Describe implements [prometheus.Collector].
func (c *watches) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.count, c.age, c.index, c.needs, c.byServer} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *watches) Collect(to chan<- prometheus.Metric) {
	sums := map[*prometheus.Desc]map[string]float64{}
	put := func(d *prometheus.Desc, how func(old, value float64) float64, value float64, labels ...string) {
		of := sums[d]
		if of == nil {
			of = map[string]float64{}
			sums[d] = of
		}
		key := strings.Join(labels, "\x00")
		of[key] = how(of[key], value)
	}
	sum := func(old, value float64) float64 { return old + value }
	most := func(old, value float64) float64 { return max(old, value) }
	for _, w := range c.list() {
		put(c.count, sum, 1, w.Topic, w.Mode, w.State)
		put(c.needs, sum, float64(w.Needs), w.Topic)
		put(c.index, most, float64(w.Index), w.Topic)
		if w.Age >= 0 {
			put(c.age, most, w.Age.Seconds(), w.Topic, w.Mode)
		}
		if w.Server != "" {
			put(c.byServer, sum, 1, w.Server)
		}
	}
	for desc, of := range sums {
		for _, key := range slices.Sorted(maps.Keys(of)) {
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, of[key], strings.Split(key, "\x00")...)
		}
	}
}
