package xds_test

import (
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/catenary-mesh/catenary/internal/metrics"
	"github.com/catenary-mesh/catenary/xds"
)

// nackTypes tells which types NACKs are counted under.
type nackTypes struct {
	*metrics.Metrics
	types chan string
}

func (n nackTypes) Nack(typ string) { n.types <- typ }

// A client chooses the names of types, and every label is kept for good.
func TestRefusalsOfTypesThatAreNotServedShareOneCount(t *testing.T) {
	counted := nackTypes{metrics.New("test"), make(chan string, 2)}
	c := startControl(t, func(cfg *xds.Config) { cfg.Metrics = counted })
	conn, err := grpc.NewClient(c.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	st, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{"type.googleapis.com/made.up.One", "type.googleapis.com/made.up.Two"} {
		err := st.Send(&discoveryv3.DeltaDiscoveryRequest{
			Node: &corev3.Node{Id: "web-1", Cluster: "web"}, TypeUrl: url, ErrorDetail: &statuspb.Status{Message: "no"},
		})
		if err != nil {
			t.Fatal(err)
		}
		select {
		case typ := <-counted.types:
			if typ != "other" {
				t.Errorf("a refusal of %s counts as one of %q", url, typ)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the refusal is not counted")
		}
	}
}
