package metrics_test

import (
	"strings"
	"testing"

	"github.com/catenary-mesh/catenary/internal/metrics"
)

func TestLoadsAreOnThePage(t *testing.T) {
	m := metrics.New("test")
	m.LoadReporting(2)
	m.LoadReporting(-1)
	m.LoadReported()
	for range 2 {
		m.Load(metrics.Load{Service: "api", Datacenter: "dc1", Region: "eu", Zone: "a", Status: "error"}, 3)
	}
	got := page(t, m)
	for _, want := range []string{
		"catenary_load_streams 1",
		"catenary_load_reports_total 1",
		`catenary_load_requests_total{datacenter="dc1",region="eu",service="api",status="error",zone="a"} 6`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}
