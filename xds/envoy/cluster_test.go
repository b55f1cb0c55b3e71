package envoy

import (
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/catenary-mesh/catenary/snapshot"
)

func set(n uint32) snapshot.Limit { return snapshot.Limit{Set: true, Value: n} }

// translated is a cluster in plaintext.
func translated(t *testing.T, k snapshot.ClusterKey) *clusterv3.Cluster {
	t.Helper()
	k.Name, k.Transport = "api", snapshot.Plaintext{}
	c, err := cluster(k)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// wants compares a message with its JSON form.
func wants[M proto.Message](t *testing.T, got, empty M, want string) {
	t.Helper()
	if err := protojson.Unmarshal([]byte(want), empty); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(got, empty) {
		t.Errorf("got %s\nwant %s", protojson.Format(got), want)
	}
}

func TestLoadBalancingPolicies(t *testing.T) {
	for name, c := range map[string]struct {
		balancer snapshot.LoadBalancer
		want     string
	}{
		"unset is Envoy's default": {snapshot.LoadBalancer{}, `{}`},
		"round robin":              {snapshot.LoadBalancer{Policy: "round_robin"}, `{}`},
		"random":                   {snapshot.LoadBalancer{Policy: "random"}, `{"lbPolicy": "RANDOM"}`},
		"maglev":                   {snapshot.LoadBalancer{Policy: "maglev"}, `{"lbPolicy": "MAGLEV"}`},
		"least request":            {snapshot.LoadBalancer{Policy: "least_request"}, `{"lbPolicy": "LEAST_REQUEST"}`},
		"least request of five": {
			snapshot.LoadBalancer{Policy: "least_request", LeastRequestsChoices: 5},
			`{"lbPolicy": "LEAST_REQUEST", "leastRequestLbConfig": {"choiceCount": 5}}`,
		},
		"ring hash": {snapshot.LoadBalancer{Policy: "ring_hash"}, `{"lbPolicy": "RING_HASH"}`},
		"ring hash within bounds": {
			snapshot.LoadBalancer{Policy: "ring_hash", MinRing: 64, MaxRing: 512},
			`{"lbPolicy": "RING_HASH", "ringHashLbConfig": {"minimumRingSize": 64, "maximumRingSize": 512}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := &clusterv3.Cluster{}
			balance(got, c.balancer)
			wants(t, got, &clusterv3.Cluster{}, c.want)
		})
	}
}

func TestOutlierDetection(t *testing.T) {
	for name, c := range map[string]struct {
		outlier snapshot.Outlier
		want    string
	}{
		"unset has Envoy's defaults": {snapshot.Outlier{}, `{}`},
		"all of it": {
			snapshot.Outlier{
				IntervalMs: 10_000, MaxFailures: 3, EnforcingConsecutive5xx: set(50),
				MaxEjectionPercent: set(20), BaseEjectionMs: 45_500,
			},
			`{"interval": "10s", "consecutive5xx": 3, "enforcingConsecutive5xx": 50,
			  "maxEjectionPercent": 20, "baseEjectionTime": "45.5s"}`,
		},
		"an explicit 0 turns ejection off": {
			snapshot.Outlier{EnforcingConsecutive5xx: set(0), MaxEjectionPercent: set(0)},
			`{"enforcingConsecutive5xx": 0, "maxEjectionPercent": 0}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			wants(t, outlier(c.outlier), &clusterv3.OutlierDetection{}, c.want)
		})
	}
}

func TestCircuitBreakers(t *testing.T) {
	for name, c := range map[string]struct {
		limits snapshot.Limits
		want   string
	}{
		"unset has Envoy's defaults": {snapshot.Limits{}, `{}`},
		"all of them": {
			snapshot.Limits{MaxConnections: set(1), MaxPendingRequests: set(2), MaxConcurrentRequests: set(3)},
			`{"thresholds": [{"maxConnections": 1, "maxPendingRequests": 2, "maxRequests": 3}]}`,
		},
		"an explicit 0 is a limit": {
			snapshot.Limits{MaxPendingRequests: set(0)},
			`{"thresholds": [{"maxPendingRequests": 0}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			wants(t, breakers(c.limits), &clusterv3.CircuitBreakers{}, c.want)
		})
	}
}

func TestOnlyHTTP2AndGRPCAreSpokenWithPriorKnowledge(t *testing.T) {
	for protocol, want := range map[string]bool{"tcp": false, "http": false, "http2": true, "grpc": true} {
		c := translated(t, snapshot.ClusterKey{Protocol: protocol})
		if got := c.GetTypedExtensionProtocolOptions()[httpOptionsKey] != nil; got != want {
			t.Errorf("%s: options for HTTP/2 present=%v, want %v", protocol, got, want)
		}
	}
}

func TestNoClusterPanics(t *testing.T) {
	c := translated(t, snapshot.ClusterKey{ConnectTimeout: time.Second})
	if p := c.GetCommonLbConfig().GetHealthyPanicThreshold(); p == nil || p.GetValue() != 0 {
		t.Errorf("panic threshold %v, want an explicit 0: Envoy's default of 50%% sends to the ill", p)
	}
}
