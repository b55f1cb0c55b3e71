package metrics_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/metrics"
)

func page(t *testing.T, m *metrics.Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Page().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	if w.Code != http.StatusOK {
		t.Fatalf("GET /metrics: %d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func TestEverythingCountedIsOnThePage(t *testing.T) {
	m := metrics.New("1.2.3")
	m.StreamOpened("delta")
	m.StreamOpened("delta")
	m.StreamClosed("delta")
	m.Response("cluster", 3, 120)
	m.Nack("route")
	m.RouteWaited()
	m.PlanRun()
	m.ProductMade("endpoints")
	m.Problems(2)
	m.SourceProblems(1)
	m.SourceQuery("health", "failed")
	m.SourceAge(1500 * time.Millisecond)
	m.GRPCConnections(2)
	m.GRPCConnections(-1)
	m.GRPCStreams(1)
	m.GRPCStreams(-1)
	m.GRPCRefused("streams", 1)
	m.GRPCRefused("names", 0)
	m.GRPCCertificate(time.Unix(1_900_000_000, 0), nil)
	m.GRPCCertificate(time.Time{}, errors.New("no such file"))
	m.LeafsHeld(3, time.Unix(1_800_000_000, 0))
	m.LeafOrder("issued")
	got := page(t, m)
	for _, want := range []string{
		`catenary_xds_streams{protocol="delta"} 1`,
		`catenary_xds_responses_total{type="cluster"} 1`,
		`catenary_xds_response_resources_total{type="cluster"} 3`,
		`catenary_xds_response_bytes_total{type="cluster"} 120`,
		`catenary_xds_nacks_total{type="route"} 1`,
		`catenary_xds_routes_waited_total 1`,
		`catenary_plans_total 1`,
		`catenary_products_made_total{kind="endpoints"} 1`,
		`catenary_problems{origin="chains"} 2`,
		`catenary_problems{origin="source"} 1`,
		`catenary_source_queries_total{result="failed",topic="health"} 1`,
		`catenary_source_oldest_answer_seconds 1.5`,
		`catenary_grpc_connections 1`,
		`catenary_grpc_connections_total 2`,
		`catenary_grpc_streams 0`,
		`catenary_grpc_streams_total 1`,
		`catenary_grpc_refused_total{reason="streams"} 1`,
		`catenary_grpc_refused_total{reason="names"} 0`,
		`catenary_grpc_certificate_reads_total{result="ok"} 1`,
		`catenary_grpc_certificate_reads_total{result="failed"} 1`,
		`catenary_grpc_certificate_expiry_timestamp_seconds 1.9e+09`,
		`catenary_identity_leafs 3`,
		`catenary_identity_first_expiry_timestamp_seconds 1.8e+09`,
		`catenary_identity_orders_total{result="issued"} 1`,
		`version="1.2.3"`,
		"go_goroutines",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestTwoRegistriesDoNotMeet(t *testing.T) {
	a, b := metrics.New("a"), metrics.New("b")
	a.PlanRun()
	if !strings.Contains(page(t, b), "catenary_plans_total 0") {
		t.Error("a count in one registry shows in another")
	}
}

func TestAnAgeThatNobodyMeasuresIsNotOnThePage(t *testing.T) {
	if strings.Contains(page(t, metrics.New("a")), "catenary_source_oldest_answer_seconds") {
		t.Error("files have no age, and zero would be one")
	}
}
