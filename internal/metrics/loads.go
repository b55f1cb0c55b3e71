package metrics

import "github.com/prometheus/client_golang/prometheus"

// loadMetrics are what clients report of their requests.
type loadMetrics struct {
	reporting prometheus.Gauge
	reports   prometheus.Counter
	requests  *prometheus.CounterVec
}

func newLoadMetrics() loadMetrics {
	return loadMetrics{
		reporting: prometheus.NewGauge(prometheus.GaugeOpts(opts("load_streams",
			"Streams on which clients report their loads now."))),
		reports: prometheus.NewCounter(opts("load_reports_total",
			"Reports of loads that say anything.")),
		requests: counter("load_requests_total",
			"Requests of clients that have ended, as they report them: of which service the instances are, where these are, and what became of it.",
			"service", "datacenter", "region", "zone", "status"),
	}
}

func (l loadMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{l.reporting, l.reports, l.requests}
}

// Load says of which requests a count is: of which service and datacenter the instances are, in which region
// and zone they are, and what became of the requests. Whoever counts bounds how many there are.
type Load struct{ Service, Datacenter, Region, Zone, Status string }

// LoadReporting adds to the streams on which clients report.
func (m *Metrics) LoadReporting(delta int) { m.loads.reporting.Add(float64(delta)) }

// LoadReported counts a report.
func (m *Metrics) LoadReported() { m.loads.reports.Inc() }

// Load counts n requests.
func (m *Metrics) Load(l Load, n uint64) {
	m.loads.requests.WithLabelValues(l.Service, l.Datacenter, l.Region, l.Zone, l.Status).Add(float64(n))
}
