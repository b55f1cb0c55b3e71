package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// grpcMetrics are those of the gRPC server, whatever is served on it.
type grpcMetrics struct {
	connections      *prometheus.GaugeVec
	connectionsTotal *prometheus.CounterVec
	streams          *prometheus.GaugeVec
	streamsTotal     *prometheus.CounterVec
	refused          *prometheus.CounterVec
	certificates     *prometheus.CounterVec
	expiry           *prometheus.GaugeVec
}

func newGRPCMetrics() grpcMetrics {
	return grpcMetrics{
		connections: gauge("grpc_connections",
			"Connections to the gRPC port that are open now, those that only begin included."),
		connectionsTotal: counter("grpc_connections_total",
			"Connections to the gRPC port that were accepted."),
		streams: gauge("grpc_streams",
			"Streams of clients that are open now. Those of health and reflection are not counted."),
		streamsTotal: counter("grpc_streams_total",
			"Streams of clients that were opened."),
		refused: counter("grpc_refused_total",
			"Connections, streams and messages that were refused, by the limit that was reached or what else was wrong.", "reason"),
		certificates: counter("grpc_certificate_reads_total",
			"Certificates of the gRPC port that were read, by what came of it.", "result"),
		expiry: gauge("grpc_certificate_expiry_timestamp_seconds",
			"When the certificate of the gRPC port ends to be valid, in seconds since 1970."),
	}
}

func (g grpcMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		g.connections, g.connectionsTotal, g.streams, g.streamsTotal, g.refused, g.certificates, g.expiry,
	}
}

// GRPCConnections adds to the connections that are open now.
func (m *Metrics) GRPCConnections(delta int) {
	move(m.grpc.connections.WithLabelValues(), m.grpc.connectionsTotal.WithLabelValues(), delta)
}

// GRPCStreams adds to the streams that are open now.
func (m *Metrics) GRPCStreams(delta int) {
	move(m.grpc.streams.WithLabelValues(), m.grpc.streamsTotal.WithLabelValues(), delta)
}

// move moves what there is now, and counts what has come.
func move(now prometheus.Gauge, total prometheus.Counter, delta int) {
	now.Add(float64(delta))
	total.Add(float64(max(delta, 0)))
}

// GRPCRefused counts n refusals for a reason; with 0 the reason is on the page from then on.
func (m *Metrics) GRPCRefused(reason string, n int) {
	m.grpc.refused.WithLabelValues(reason).Add(float64(n))
}

// GRPCCertificate counts a certificate that was read, and sets until when it is valid if it can be used.
func (m *Metrics) GRPCCertificate(expires time.Time, err error) {
	if err != nil {
		m.grpc.certificates.WithLabelValues("failed").Inc()
		return
	}
	m.grpc.certificates.WithLabelValues("ok").Inc()
	m.grpc.expiry.WithLabelValues().Set(float64(expires.Unix()))
}
