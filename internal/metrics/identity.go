package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// identityMetrics are those of the certificates of services.
type identityMetrics struct {
	leafs  *prometheus.GaugeVec
	expiry *prometheus.GaugeVec
	orders *prometheus.CounterVec
}

func newIdentityMetrics() identityMetrics {
	return identityMetrics{
		leafs: gauge("identity_leafs",
			"Certificates of services that are held now."),
		expiry: gauge("identity_first_expiry_timestamp_seconds",
			"When the first of the certificates of services ends to be valid, in seconds since 1970."),
		orders: counter("identity_orders_total",
			"Certificates of services that were ordered, by what came of it.", "result"),
	}
}

func (i identityMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{i.leafs, i.expiry, i.orders}
}

// LeafsHeld sets how many certificates of services are held, and when the first ends to be valid; without
// any that is not on the page.
func (m *Metrics) LeafsHeld(n int, firstExpiry time.Time) {
	m.identity.leafs.WithLabelValues().Set(float64(n))
	m.identity.expiry.Reset()
	if !firstExpiry.IsZero() {
		m.identity.expiry.WithLabelValues().Set(float64(firstExpiry.Unix()))
	}
}

// LeafOrder counts an order of a certificate, and what came of it.
func (m *Metrics) LeafOrder(result string) { m.identity.orders.WithLabelValues(result).Inc() }
