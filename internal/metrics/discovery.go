package metrics

import "github.com/prometheus/client_golang/prometheus"

// Figure is a number of health discovery at a moment.
type Figure struct {
	// Name follows the program's and hds; a counter's ends in total or sum.
	Name, Help string
	// Label and Of tell figures of one name apart; empty for a lone one.
	Label, Of string
	Counter   bool
	Value     float64
}

// Figures has the figures asked for whenever the page is. Each time they are the same but for their values. It is
// called once.
func (m *Metrics) Figures(list func() []Figure) { m.registry.MustRegister(figures{list}) }

// figures collects what is asked for at the moment. It describes nothing beforehand, because that would ask too.
type figures struct{ list func() []Figure }

// Describe implements [prometheus.Collector].
func (figures) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (c figures) Collect(to chan<- prometheus.Metric) {
	for _, f := range c.list() {
		var labels, values []string
		if f.Label != "" {
			labels, values = []string{f.Label}, []string{f.Of}
		}
		kind := prometheus.GaugeValue
		if f.Counter {
			kind = prometheus.CounterValue
		}
		desc := prometheus.NewDesc(prometheus.BuildFQName(namespace, "hds", f.Name), f.Help, labels, nil)
		to <- prometheus.MustNewConstMetric(desc, kind, f.Value, values...)
	}
}
