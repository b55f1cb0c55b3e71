package xds_test

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	load_statsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
)

// tallied counts loads in a map.
type tallied struct {
	mu        sync.Mutex
	reporting int
	reports   int
	loads     map[xds.Load]uint64
}

func (l *tallied) LoadReporting(delta int) { l.mu.Lock(); l.reporting += delta; l.mu.Unlock() }
func (l *tallied) LoadReported()           { l.mu.Lock(); l.reports++; l.mu.Unlock() }
func (l *tallied) Load(of xds.Load, n uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.loads == nil {
		l.loads = map[xds.Load]uint64{}
	}
	l.loads[of] += n
}

// after waits for so many reports, and returns what they said.
func (l *tallied) after(t *testing.T, reports int) map[xds.Load]uint64 {
	t.Helper()
	var got map[xds.Load]uint64
	testenv.Eventually(t, 5*time.Second, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if got = maps.Clone(l.loads); l.reports != reports {
			return fmt.Errorf("%d reports, want %d", l.reports, reports)
		}
		return nil
	})
	return got
}

// reporter is a stream of loads.
type reporter struct {
	load_statsv3.LoadReportingService_StreamLoadStatsClient
}

func report(t *testing.T, conn *grpc.ClientConn, node *corev3.Node) reporter {
	t.Helper()
	st, err := load_statsv3.NewLoadReportingServiceClient(conn).StreamLoadStats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Send(&load_statsv3.LoadStatsRequest{Node: node}); err != nil {
		t.Fatal(err)
	}
	return reporter{st}
}

// says sends a report.
func (r reporter) says(t *testing.T, list ...*endpointv3.ClusterStats) {
	t.Helper()
	if err := r.Send(&load_statsv3.LoadStatsRequest{ClusterStats: list}); err != nil {
		t.Fatal(err)
	}
}

func from(region, zone string, good, bad uint64) *endpointv3.UpstreamLocalityStats {
	return &endpointv3.UpstreamLocalityStats{
		Locality: &corev3.Locality{Region: region, Zone: zone}, TotalSuccessfulRequests: good, TotalErrorRequests: bad,
	}
}

func TestLoadsAreCountedByServicePlaceAndStatus(t *testing.T) {
	loads := &tallied{}
	c := startControl(t, func(cfg *xds.Config) { cfg.Loads, cfg.LoadReportEvery = loads, time.Second })
	c.load("web", "api", "secret")
	near, far := numbered("api", 1), numbered("api", 2)
	near.Service.ID, far.Service.ID = "near", "far"
	near.Service.Locality = &facts.Locality{Region: "eu", Zone: "a"}
	c.instances("api", near, far)
	f := c.followed("web-1", "web", false, "api")
	conn := c.dial()
	r := report(t, conn, f.node)
	said, err := r.Recv()
	if err != nil || !said.GetSendAllClusters() || said.GetLoadReportingInterval().AsDuration() != time.Second {
		t.Fatalf("told %v, %v", said, err)
	}
	r.says(t,
		&endpointv3.ClusterStats{
			ClusterName: clusterOf("api"), TotalDroppedRequests: 5,
			UpstreamLocalityStats: []*endpointv3.UpstreamLocalityStats{
				from("eu", "a", 10, 1), from("", "", 20, 2), from("eu", "made-up", 3, 0), from("mars", "a", 4, 0),
			},
		},
		&endpointv3.ClusterStats{
			ClusterName: clusterOf("secret"), UpstreamLocalityStats: []*endpointv3.UpstreamLocalityStats{from("eu", "a", 7, 0)},
		},
		&endpointv3.ClusterStats{
			ClusterName: "own", ClusterServiceName: clusterOf("api"),
			UpstreamLocalityStats: []*endpointv3.UpstreamLocalityStats{from("eu", "a", 100, 0)},
		})
	want := map[xds.Load]uint64{
		{Service: "api", Datacenter: "dc1", Region: "eu", Zone: "a", Status: xds.LoadSuccess}:        110,
		{Service: "api", Datacenter: "dc1", Region: "eu", Zone: "a", Status: xds.LoadError}:          1,
		{Service: "api", Datacenter: "dc1", Status: xds.LoadSuccess}:                                 20,
		{Service: "api", Datacenter: "dc1", Status: xds.LoadError}:                                   2,
		{Service: "api", Datacenter: "dc1", Status: xds.LoadDropped}:                                 5,
		{Service: "api", Datacenter: "dc1", Region: "other", Zone: "other", Status: xds.LoadSuccess}: 7,
		{Service: "other", Status: xds.LoadSuccess}:                                                  7,
	}
	if got := loads.after(t, 1); !maps.Equal(got, want) {
		t.Errorf("counted %v,\nwant %v", got, want)
	}
	r.says(t)
	r.says(t, &endpointv3.ClusterStats{ClusterName: clusterOf("api"), UpstreamLocalityStats: []*endpointv3.UpstreamLocalityStats{from("eu", "a", 1, 0)}})
	if got := loads.after(t, 2)[xds.Load{Service: "api", Datacenter: "dc1", Region: "eu", Zone: "a", Status: xds.LoadSuccess}]; got != 111 {
		t.Errorf("counted %d, want 111", got)
	}
	// Of a client that is not served here nothing is known.
	other := report(t, conn, declaring(t, "web-2", "web"))
	other.says(t, &endpointv3.ClusterStats{ClusterName: clusterOf("api"), UpstreamLocalityStats: []*endpointv3.UpstreamLocalityStats{from("eu", "a", 1, 0)}})
	if got := loads.after(t, 3)[xds.Load{Service: "other", Status: xds.LoadSuccess}]; got != 8 {
		t.Errorf("counted %d, want 8", got)
	}
	for _, r := range []reporter{r, other} {
		if err := r.CloseSend(); err != nil {
			t.Fatal(err)
		}
	}
	testenv.Eventually(t, 5*time.Second, func() error {
		loads.mu.Lock()
		defer loads.mu.Unlock()
		if loads.reporting != 0 {
			return fmt.Errorf("%d report", loads.reporting)
		}
		return nil
	})
}

func TestLoadsAreTakenFromWhoIsServed(t *testing.T) {
	guarded := xds.NewGuard(xds.GuardConfig{Tokens: runVerdicts(t, webRules()), Datacenter: "dc1", TrustDomain: "td.consul"})
	c := startControl(t, func(cfg *xds.Config) {
		cfg.Guard, cfg.FirstRequestWithin = guarded, 300*time.Millisecond
	})
	conn := c.dial()
	for name, tt := range map[string]struct {
		node *corev3.Node
		code codes.Code
		says string
	}{
		"without a token": {&corev3.Node{Id: "web-1", Cluster: "web"}, codes.Unauthenticated, `service:write on "web"`},
		"without a name":  {nil, codes.InvalidArgument, "node.id is empty"},
	} {
		r := report(t, conn, tt.node)
		if _, err := r.Recv(); status.Code(err) != tt.code || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	mute, err := load_statsv3.NewLoadReportingServiceClient(conn).StreamLoadStats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mute.Recv(); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("who says nothing: %v", err)
	}
}
