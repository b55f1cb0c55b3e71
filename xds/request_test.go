package xds

import (
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/catenary-mesh/catenary/xds/envoy"
	"github.com/catenary-mesh/catenary/xds/session"
)

// heavy is a node like Envoy's.
func heavy(t testing.TB) *corev3.Node {
	metadata, err := structpb.NewStruct(map[string]any{"node_name": "n1"})
	if err != nil {
		t.Fatal(err)
	}
	n := &corev3.Node{
		Id: "web-1", Cluster: "web", Metadata: metadata, Locality: &corev3.Locality{Zone: "z"},
		UserAgentName: "envoy", ClientFeatures: []string{"xds.config.supports-resource-ttl"},
	}
	for range 516 {
		n.Extensions = append(n.Extensions, &corev3.Extension{
			Name: "envoy.filters.http.something_rather_long", Category: "envoy.filters.http",
			TypeUrls: []string{"envoy.extensions.filters.http.something_rather_long.v3.SomethingRatherLong"},
		})
	}
	return n
}

func TestOfANodeOnlyWhatIsReadIsDecoded(t *testing.T) {
	node := heavy(t)
	node.Extensions = append(node.Extensions, &corev3.Extension{Name: "envoy.filters.http.wasm"})
	want := proto.Clone(node).(*corev3.Node)
	want.Extensions = want.Extensions[516:]
	refused := &status.Status{Code: 3, Message: "no"}
	for name, tt := range map[string]struct {
		form session.Form
		m    proto.Message
		want *session.Request
	}{
		"sotw": {
			session.SotW,
			&discoveryv3.DiscoveryRequest{
				VersionInfo: "1", Node: node, ResourceNames: []string{"a", "b"}, TypeUrl: session.ClusterURL,
				ResponseNonce: "n", ErrorDetail: refused,
			},
			&session.Request{
				TypeURL: session.ClusterURL, Nonce: "n", Error: &session.Refusal{Code: 3, Message: "no"},
				Names: []string{"a", "b"}, Version: "1",
			},
		},
		"delta": {
			session.Delta,
			&discoveryv3.DeltaDiscoveryRequest{
				Node: node, TypeUrl: session.EndpointURL, ResourceNamesSubscribe: []string{"a"}, ResourceNamesUnsubscribe: []string{"b"},
				InitialResourceVersions: map[string]string{"c": "1"}, ResponseNonce: "n", ErrorDetail: refused,
			},
			&session.Request{
				TypeURL: session.EndpointURL, Nonce: "n", Error: &session.Refusal{Code: 3, Message: "no"},
				Subscribe: []string{"a"}, Unsubscribe: []string{"b"}, Initial: map[string]string{"c": "1"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := proto.Marshal(tt.m)
			if err != nil {
				t.Fatal(err)
			}
			for _, first := range []bool{true, false} {
				r := request{form: tt.form, first: first}
				if err := r.decode(data); err != nil {
					t.Fatal(err)
				}
				expect := *tt.want
				if first {
					expect.Node = want
				}
				if diff := cmp.Diff(&expect, r.Request, protocmp.Transform()); diff != "" {
					t.Errorf("first %v: %s", first, diff)
				}
			}
		})
	}
}

// An Envoy that is built without one of these refuses the whole listener.
func TestAnEnvoyRunsWasmWhenItHasAllOfIt(t *testing.T) {
	var all []*corev3.Extension
	for n, name := range envoy.EvictionNeeds() {
		if runsWasm(all) {
			t.Errorf("with %d of the extensions it does", n)
		}
		all = append(all, &corev3.Extension{Name: name})
	}
	if !runsWasm(all) {
		t.Error("with all extensions it does not")
	}
}

// FuzzRequestDecoding holds that what is left out changes nothing else, and that nothing a client sends ends
// the program.
func FuzzRequestDecoding(f *testing.F) {
	for _, m := range []proto.Message{
		&discoveryv3.DiscoveryRequest{Node: &corev3.Node{Id: "a", Extensions: []*corev3.Extension{{Name: "x"}}}, TypeUrl: "t"},
		&discoveryv3.DeltaDiscoveryRequest{Node: &corev3.Node{Id: "a"}, ResourceNamesSubscribe: []string{"x"}},
	} {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte{0x12, 0x02, 0x4a, 0x05})
	f.Fuzz(func(t *testing.T, data []byte) {
		var m discoveryv3.DiscoveryRequest
		valid := proto.Unmarshal(data, &m) == nil
		for _, first := range []bool{true, false} {
			r := request{form: session.SotW, first: first}
			err := r.decode(data)
			if !valid {
				continue // of what is left out, errors may go unseen
			}
			if err != nil {
				t.Fatalf("first %v: %v", first, err)
			}
			want := proto.Clone(&m).(*discoveryv3.DiscoveryRequest)
			if !first {
				want.Node = nil
			} else if want.Node != nil {
				want.Node.Extensions = slices.DeleteFunc(want.Node.Extensions, func(e *corev3.Extension) bool {
					return !slices.ContainsFunc(envoy.EvictionNeeds(), func(name string) bool { return strings.Contains(e.String(), name) })
				})
			}
			if diff := cmp.Diff(session.FromSotW(want), r.Request, protocmp.Transform()); diff != "" {
				t.Fatalf("first %v: %s", first, diff)
			}
		}
	})
}

func BenchmarkRequestDecoding(b *testing.B) {
	data, err := proto.Marshal(&discoveryv3.DeltaDiscoveryRequest{Node: heavy(b), TypeUrl: session.EndpointURL, ResponseNonce: "n"})
	if err != nil {
		b.Fatal(err)
	}
	for name, first := range map[string]bool{"first": true, "later": false} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := request{form: session.Delta, first: first}
				if err := r.decode(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("whole", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := proto.Unmarshal(data, &discoveryv3.DeltaDiscoveryRequest{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
