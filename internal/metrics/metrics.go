// Package metrics counts what the control plane does, in the form Prometheus reads. The packages that
// have something to count declare a narrow interface for it, which [Metrics] implements; no other
// package imports Prometheus.
package metrics

import (
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics is the control plane's counters, in a registry of their own. All methods are safe for
// concurrent use. Create one with [New].
type Metrics struct {
	registry *prometheus.Registry

	streams       *prometheus.GaugeVec
	responses     *prometheus.CounterVec
	resources     *prometheus.CounterVec
	bytes         *prometheus.CounterVec
	nacks         *prometheus.CounterVec
	routesWaited  prometheus.Counter
	plans         prometheus.Counter
	products      *prometheus.CounterVec
	encoded       *prometheus.CounterVec
	problems      *prometheus.GaugeVec
	profileRoutes *prometheus.GaugeVec
	notSearched   prometheus.Gauge
	sourceQueries *prometheus.CounterVec
	sourceEvents  *prometheus.CounterVec
	oldestAnswer  *prometheus.GaugeVec
	grpc          grpcMetrics
	identity      identityMetrics
	loads         loadMetrics
}

// New returns metrics that all stand at zero. The version is that of the program.
func New(version string) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		streams: gauge("xds_streams",
			"Streams that are connected now, by the form of the protocol.", "protocol"),
		responses: counter("xds_responses_total",
			"Responses sent, by resource type.", "type"),
		resources: counter("xds_response_resources_total",
			"Resources in the responses sent, by resource type.", "type"),
		bytes: counter("xds_response_bytes_total",
			"Bytes in the responses sent, by resource type.", "type"),
		nacks: counter("xds_nacks_total",
			"Responses that a client refused, by resource type.", "type"),
		routesWaited: prometheus.NewCounter(opts("xds_routes_waited_total",
			"Routes that were sent before their clusters were accepted, after waiting for them.")),
		plans: prometheus.NewCounter(opts("plans_total",
			"Plans run: how often it was decided which products a client gets.")),
		products: counter("products_made_total",
			"Products made, by kind.", "kind"),
		encoded: counter("xds_resources_encoded_total",
			"Resources encoded, by resource type: once for all streams that have them.", "type"),
		problems: gauge("problems",
			"Problems in the user's configuration that stand now, by where they were found.", "origin"),
		profileRoutes: gauge("linkerd_profile_routes",
			"Routes of the profiles that Linkerd's proxies ask for which no profile can say (left-out), and those that lost their retries and timeout to such (weakened).", "what"),
		notSearched: prometheus.NewGauge(prometheus.GaugeOpts(opts("linkerd_services_not_searched",
			"Services among which no address is looked up that Linkerd's proxies ask for, because there are too many."))),
		sourceQueries: counter("source_queries_total",
			"Readings of the source that have ended, by what was read and what came of it.", "topic", "result"),
		sourceEvents: counter("source_events_total",
			"Events of the source that were applied, by what they were about and whether they changed a fact.", "topic", "changed"),
		oldestAnswer: gauge("source_oldest_answer_seconds",
			"How long ago Consul last answered for the topic that has been without an answer for longest. "+
				"A query waits for a change for up to 319 seconds."),
	}
	m.grpc = newGRPCMetrics()
	m.identity = newIdentityMetrics()
	m.loads = newLoadMetrics()
	m.registry.MustRegister(m.grpc.collectors()...)
	m.registry.MustRegister(m.identity.collectors()...)
	m.registry.MustRegister(m.loads.collectors()...)
	build := gauge("build_info", "Always 1; the labels say what runs.", "version", "goversion")
	build.WithLabelValues(version, runtime.Version()).Set(1)
	for _, origin := range []string{OriginChains, OriginLinkerd, OriginSource} {
		m.problems.WithLabelValues(origin).Set(0)
	}
	m.registry.MustRegister(
		m.streams, m.responses, m.resources, m.bytes, m.nacks, m.routesWaited,
		m.plans, m.products, m.encoded, m.problems, m.profileRoutes, m.notSearched, m.sourceQueries, m.sourceEvents, m.oldestAnswer, build,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// Where problems are found.
const (
	// OriginChains is the compilation of chains.
	OriginChains = "chains"
	// OriginLinkerd is the compilation of chains that Linkerd's proxies ask about.
	OriginLinkerd = "linkerd"
	// OriginSource is the reading of the source, such as a file that cannot be decoded.
	OriginSource = "source"
)

// Page serves the metrics to Prometheus.
func (m *Metrics) Page() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// StreamOpened counts a stream of that form, delta or sotw.
func (m *Metrics) StreamOpened(form string) { m.streams.WithLabelValues(form).Inc() }

// StreamClosed ends what StreamOpened counted.
func (m *Metrics) StreamClosed(form string) { m.streams.WithLabelValues(form).Dec() }

// Response counts a response of a resource type with so many resources and bytes.
func (m *Metrics) Response(typ string, resources, bytes int) {
	m.responses.WithLabelValues(typ).Inc()
	m.resources.WithLabelValues(typ).Add(float64(resources))
	m.bytes.WithLabelValues(typ).Add(float64(bytes))
}

// Nack counts a response of a resource type that was refused.
func (m *Metrics) Nack(typ string) { m.nacks.WithLabelValues(typ).Inc() }

// RouteWaited counts a route that went out without its clusters' acceptance.
func (m *Metrics) RouteWaited() { m.routesWaited.Inc() }

// PlanRun counts a plan.
func (m *Metrics) PlanRun() { m.plans.Inc() }

// ProductMade counts a product of that kind.
func (m *Metrics) ProductMade(kind string) { m.products.WithLabelValues(kind).Inc() }

// Encoded counts a resource of a resource type that was encoded.
func (m *Metrics) Encoded(typ string) { m.encoded.WithLabelValues(typ).Inc() }

// Problems sets the number of problems that chains have now.
func (m *Metrics) Problems(n int) { m.problems.WithLabelValues(OriginChains).Set(float64(n)) }

// LinkerdProblems sets the number of chains that Linkerd's proxies ask about and that do not compile now.
func (m *Metrics) LinkerdProblems(chains int) {
	m.problems.WithLabelValues(OriginLinkerd).Set(float64(chains))
}

// ProfileRoutes sets how many routes of profiles are left out, and how many are weakened by those.
func (m *Metrics) ProfileRoutes(leftOut, weakened int) {
	m.profileRoutes.WithLabelValues("left-out").Set(float64(leftOut))
	m.profileRoutes.WithLabelValues("weakened").Set(float64(weakened))
}

// NotSearched sets among how many services no address is looked up.
func (m *Metrics) NotSearched(services int) { m.notSearched.Set(float64(services)) }

// SourceProblems sets the number of problems that the source has now.
func (m *Metrics) SourceProblems(n int) { m.problems.WithLabelValues(OriginSource).Set(float64(n)) }

// SourceQuery counts a reading of a kind of topic that has ended with a result, such as failed.
func (m *Metrics) SourceQuery(topic, result string) {
	m.sourceQueries.WithLabelValues(topic, result).Inc()
}

// SourceEvent counts an event about a kind of topic, and whether it changed a fact.
func (m *Metrics) SourceEvent(topic string, changed bool) {
	m.sourceEvents.WithLabelValues(topic, strconv.FormatBool(changed)).Inc()
}

// SourceFailed counts a source that cannot be read as a whole.
func (m *Metrics) SourceFailed(source string) { m.SourceQuery(source, "failed") }

// SourceAge sets how old the oldest answer of the source is.
func (m *Metrics) SourceAge(age time.Duration) { m.oldestAnswer.WithLabelValues().Set(age.Seconds()) }

const namespace = "catenary"

func opts(name, help string) prometheus.CounterOpts {
	return prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(opts(name, help), labels)
}

func gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts(opts(name, help)), labels)
}
