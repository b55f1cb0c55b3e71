package hds

import (
	"bytes"
	"errors"
	"testing"
	"time"

	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"google.golang.org/protobuf/proto"
)

// FuzzReport holds the decoder against the protobuf library: what it takes, they agree on.
func FuzzReport(f *testing.F) {
	now := time.Unix(1000, 0)
	_, spec, _ := told(now, 4)
	f.Add(report(f, spec, false, healthy))
	f.Add(report(f, spec, true, healthy))
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, _, _ := told(now, 4)
		before := bytes.Clone(raw)
		seen, err := r.Receive(now, raw)
		if !bytes.Equal(raw, before) {
			t.Fatal("the bytes were changed")
		}
		hello, isHello, errHello := DecodeHello(raw)
		var m message
		if proto.Unmarshal(raw, &m) != nil {
			return
		}
		again, long := isHello && errors.Is(err, errTwice), len(raw) > leastLimit
		if err != nil && !again && !long || errHello != nil {
			t.Fatalf("protobuf takes it, and we do not: %v, %v", err, errHello)
		}
		if isHello && err == nil {
			t.Fatal("a first message is taken for a report")
		}
		// Otherwise parts of a message are there twice, and which of them counts is not a question.
		if !bytes.Equal(marshal(t, &m), raw) {
			return
		}
		if want := m.GetHealthCheckRequest() != nil; isHello != want {
			t.Fatalf("it is a first message: %t", isHello)
		}
		if isHello && len(hello.NodeID) < maxName && hello.NodeID != m.GetHealthCheckRequest().GetNode().GetId() {
			t.Fatalf("the node is %q", hello.NodeID)
		}
		if err == nil {
			agree(t, r, seen, m.GetEndpointHealthResponse())
		}
	})
}

// agree holds what was seen against a report in groups that protobuf read.
func agree(t *testing.T, r *Reports, seen []Observation, m *healthv3.EndpointHealthResponse) {
	t.Helper()
	if len(m.GetClusterEndpointsHealth()) == 0 {
		return
	}
	want := map[Key]int32{}
	for _, c := range m.GetClusterEndpointsHealth() {
		for _, l := range c.GetLocalityEndpointsHealth() {
			for _, e := range l.GetEndpointsHealth() {
				a := e.GetEndpoint().GetAddress().GetSocketAddress()
				if at, ok := r.index[c.GetClusterName()][Address{a.GetAddress(), a.GetPortValue()}]; ok {
					want[r.seats[at].key] = int32(e.GetHealthStatus())
				}
			}
		}
	}
	got := map[Key]Status{}
	for _, o := range seen {
		got[o.Key] = o.Status
	}
	for k, status := range want {
		if (status == wireHealthy) != (got[k] == StatusHealthy) || (status == wireTimeout) != (got[k] == StatusTimeout) {
			t.Fatalf("%v is reported with %d, and was read as %d", k, status, got[k])
		}
	}
}
