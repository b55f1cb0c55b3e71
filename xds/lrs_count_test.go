package xds

import (
	"fmt"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	load_statsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/protobuf/proto"
)

func TestThePlacesOfLoadsAreBounded(t *testing.T) {
	var p places
	for i := range maxPlaces {
		if !p.add(place{service: fmt.Sprint(i)}) {
			t.Fatalf("no room for place %d", i)
		}
	}
	if p.add(place{service: "more"}) || !p.add(place{service: "1"}) || p.has(place{service: "more"}) || !p.has(place{service: "1"}) {
		t.Error("there is more room than there may be, or less for what is known")
	}
}

func TestAReportIsReadWithoutWhatNobodyReads(t *testing.T) {
	raw, err := proto.Marshal(&load_statsv3.LoadStatsRequest{
		Node:         &corev3.Node{Id: "web-1", Extensions: []*corev3.Extension{{Name: "x"}}},
		ClusterStats: []*endpointv3.ClusterStats{{ClusterName: "api"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, first := range []bool{true, false} {
		m := &loadReport{first: first}
		if err := m.decode(raw); err != nil || len(m.clusters) != 1 || (m.node != nil) != first || len(m.node.GetExtensions()) > 0 {
			t.Errorf("first %v: read %+v, %v", first, m, err)
		}
	}
	if err := (&loadReport{}).decode([]byte("nonsense")); err == nil {
		t.Error("nonsense is read")
	}
}

func FuzzLoadReport(f *testing.F) {
	raw, err := proto.Marshal(&load_statsv3.LoadStatsRequest{
		Node: &corev3.Node{Id: "web-1", Extensions: []*corev3.Extension{{Name: "envoy.wasm.runtime.v8"}, {Name: "x"}}},
		ClusterStats: []*endpointv3.ClusterStats{{
			ClusterName: "api", UpstreamLocalityStats: []*endpointv3.UpstreamLocalityStats{{TotalErrorRequests: 1}},
		}},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add(raw[:len(raw)-3])
	f.Fuzz(func(t *testing.T, raw []byte) {
		first, later := &loadReport{first: true}, &loadReport{}
		failed, also := first.decode(raw), later.decode(raw)
		if failed == nil && also == nil && len(first.clusters) != len(later.clusters) {
			t.Errorf("%d clusters in the first message, %d in a later one", len(first.clusters), len(later.clusters))
		}
		for _, m := range []*loadReport{first, later} {
			for _, c := range m.clusters {
				sumLoads(map[Load]uint64{}, c, func(string, string) place { return place{} })
			}
		}
		each(raw, 2, func(group []byte) { text(group, 1) })
	})
}
