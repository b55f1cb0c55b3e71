package integration_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// imitate opens a delta stream as a proxy of web would, subscribes to all clusters and to the
// endpoints of one, and acknowledges what comes. It counts the responses of endpoints.
func imitate(t *testing.T, conn *grpc.ClientConn, id string, endpoints *atomic.Int64) {
	t.Helper()
	st, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	meta, err := structpb.NewStruct(map[string]any{"catenary": map[string]any{
		"service": "web", "upstreams": []any{
			map[string]any{"service": "api", "bind_address": "127.0.0.1", "bind_port": 9191},
			map[string]any{"service": "stock", "bind_address": "127.0.0.1", "bind_port": 9192},
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	node := &corev3.Node{Id: id, Cluster: "web", Metadata: meta}
	cluster := "%s.default.dc1.internal.%s"
	names := []string{fmt.Sprintf(cluster, "api", trustDomain), fmt.Sprintf(cluster, "stock", trustDomain)}
	for _, req := range []*discoveryv3.DeltaDiscoveryRequest{
		{Node: node, TypeUrl: resourcev3.ClusterType},
		{TypeUrl: resourcev3.EndpointType, ResourceNamesSubscribe: names},
		{TypeUrl: resourcev3.ListenerType},
	} {
		if err := st.Send(req); err != nil {
			t.Fatal(err)
		}
	}
	go func() {
		for {
			resp, err := st.Recv()
			if err != nil {
				return // the test has ended
			}
			ack := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: resp.GetTypeUrl(), ResponseNonce: resp.GetNonce()}
			if st.Send(ack) != nil {
				return
			}
			if resp.GetTypeUrl() == resourcev3.EndpointType {
				endpoints.Add(int64(len(resp.GetResources())))
			}
		}
	}()
}

// quiet waits until catenary has taken in what was written to Consul: nothing is planned or made for
// half a second.
func (f *fleet) quiet() {
	f.t.Helper()
	work := func() float64 {
		sum := 0.0
		for name, v := range f.catenary.Metrics() {
			if strings.HasPrefix(name, "catenary_plans_total") || strings.HasPrefix(name, "catenary_products_made_total") {
				sum += v
			}
		}
		return sum
	}
	last, since := work(), time.Now()
	testenv.Eventually(f.t, patience, func() error {
		if now := work(); now != last {
			last, since = now, time.Now()
		}
		if d := time.Since(since); d < 500*time.Millisecond {
			return fmt.Errorf("catenary has been quiet for %s", d)
		}
		return nil
	})
}

const trustDomain = "flip.example"

func TestAFlipRunsNoPlanAndMakesOneProductForFiftyProxies(t *testing.T) {
	f := startFleet(t, false, "--trust-domain", trustDomain)
	v1, v2 := testenv.StartBackend(t, "v1"), testenv.StartBackend(t, "v2")
	for _, s := range []string{"api", "stock"} {
		f.register(s, v1)
		f.register(s, v2)
	}
	conn, err := grpc.NewClient(f.catenary.GRPCAddr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	const n = 50
	var endpoints atomic.Int64
	for i := range n {
		imitate(t, conn, fmt.Sprintf("web-%d", i), &endpoints)
	}
	settled := func(least int64) {
		t.Helper()
		testenv.Eventually(t, patience, func() error {
			list, err := proxies(f.catenary)
			if err != nil {
				return err
			}
			synced := 0
			for _, p := range list {
				if p.State == "SYNCED" && len(p.Types) == 3 {
					synced++
				}
			}
			if synced != n || endpoints.Load() < least {
				return fmt.Errorf("%d of %d proxies are synced, with %d endpoint sets of %d", synced, n, endpoints.Load(), least)
			}
			return nil
		})
	}
	settled(2 * n)
	f.quiet()
	have := endpoints.Load() // some clusters came after their endpoints, and brought them along again
	before := f.catenary.Metrics()
	f.consul.SetCheck("api-v2", "critical")
	settled(have + n)
	after := f.catenary.Metrics()
	for name, want := range map[string]float64{
		"catenary_plans_total":                                        0,
		`catenary_products_made_total{kind="endpoints"}`:              1,
		`catenary_products_made_total{kind="cluster"}`:                0,
		`catenary_products_made_total{kind="listener"}`:               0,
		`catenary_xds_responses_total{type="endpoint"}`:               n,
		`catenary_xds_responses_total{type="cluster"}`:                0,
		`catenary_xds_response_resources_total{type="endpoint"}`:      n,
		`catenary_source_events_total{changed="true",topic="health"}`: 1,
	} {
		if got := after[name] - before[name]; got != want {
			t.Errorf("a flip changed %s by %v, want %v", name, got, want)
		}
	}
	if _, ok := after["catenary_plans_total"]; !ok {
		t.Error("the metrics of the test are not those of the program")
	}
}
