package server_test

import (
	"context"
	"fmt"
	"testing"

	corev2 "github.com/envoyproxy/go-control-plane/envoy/api/v2/core"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	healthv2 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// An Envoy of the predecessor's time knows neither the fields for TLS nor redis by its type of today, and reports
// endpoints without their clusters.
func TestThePredecessorIsTalkedToInItsOwnWords(t *testing.T) {
	r := newRig(t, nil)
	r.services(map[string]map[string]string{
		"api":   tcp(),
		"web":   {"hds-path": "/healthz", "hds-expected-statuses": "200-299", "hds-interval": "100ms", "hds-timeout": "50ms"},
		"cache": {"hds-protocol": "redis"},
		"safe":  {"hds-protocol": "tcp", "hds-tls": "true"},
	})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	st, err := healthv2.NewHealthDiscoveryServiceClient(r.dial()).StreamHealthCheck(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.SendMsg(todays("old")); err != nil {
		t.Fatal(err)
	}
	spec := &healthv2.HealthCheckSpecifier{}
	for len(spec.GetClusterHealthChecks()) < 2 {
		if spec, err = st.Recv(); err != nil {
			t.Fatal(err)
		}
		known(t, spec)
	}
	for _, name := range []string{"cache", "safe"} {
		if s := r.server.Health(name); len(s) != 1 || len(s[0].Endpoints) != 1 || len(s[0].Endpoints[0].Votes) != 0 {
			t.Errorf("what the predecessor has no words for is probed: %+v", s)
		}
	}
	testenv.Eventually(t, patience, func() error {
		if err := st.Send(flatReport(spec)); err != nil {
			return err
		}
		for _, name := range []string{"api", "web"} {
			if s := r.server.Health(name); s[0].Endpoints[0].Verdict != "down" {
				return fmt.Errorf("%+v", s)
			}
		}
		return nil
	})
}

// services registers one instance of each service, whose probes the Meta of its defaults asks for.
func (r *rig) services(metas map[string]map[string]string) {
	var entries []chain.Entry
	port := 8000
	r.store.Commit(func(tx *facts.Tx) {
		for name, meta := range metas {
			port++
			entries = append(entries, &chain.ServiceDefaults{Header: chain.Header{Name: name, Meta: meta}})
			tx.Instances(facts.Health("dc1", name), []*facts.Instance{{
				Node:    facts.Node{Node: "n", Address: "127.0.0.1", ModifyIndex: 1},
				Service: facts.Service{ID: name, Service: name, Port: port, ModifyIndex: 1},
			}}, confirmed)
		}
		tx.Entries(chain.KindServiceDefaults, entries, confirmed)
	})
}

// todays is the first message of an Envoy that has all that those of today have.
func todays(id string) proto.Message {
	m := hello(id)
	node := m.GetHealthCheckRequest().GetNode()
	for _, kind := range []string{"http", "tcp", "grpc", "redis"} {
		node.Extensions = append(node.Extensions, &corev3.Extension{Category: "envoy.health_checkers", Name: "envoy.health_checkers." + kind})
	}
	return m
}

// known says which fields of a message its version does not have.
func known(t *testing.T, m proto.Message) {
	t.Helper()
	err := protorange.Range(m.ProtoReflect(), func(v protopath.Values) error {
		last := v.Index(-1)
		if last.Step.Kind() == protopath.UnknownAccessStep {
			t.Errorf("%v holds what the predecessor does not know", v.Path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// flatReport finds all down, and has no clusters.
func flatReport(spec *healthv2.HealthCheckSpecifier) *healthv2.HealthCheckRequestOrEndpointHealthResponse {
	m := &healthv2.EndpointHealthResponse{}
	for _, c := range spec.GetClusterHealthChecks() {
		for _, l := range c.GetLocalityEndpoints() {
			for _, e := range l.GetEndpoints() {
				m.EndpointsHealth = append(m.EndpointsHealth, &healthv2.EndpointHealth{Endpoint: e, HealthStatus: corev2.HealthStatus_UNHEALTHY})
			}
		}
	}
	return &healthv2.HealthCheckRequestOrEndpointHealthResponse{
		RequestType: &healthv2.HealthCheckRequestOrEndpointHealthResponse_EndpointHealthResponse{EndpointHealthResponse: m},
	}
}
