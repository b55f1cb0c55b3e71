package server

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"google.golang.org/protobuf/proto"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/hds"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// envoy is a checker that takes what it is told at once and reports when it should: port 81 refuses connections.
type envoy struct {
	*stream
	spec *healthv3.HealthCheckSpecifier
	// told counts specifiers, and nothing those that have it probe nothing.
	told, nothing int
	next          time.Time
}

// comes has an Envoy connect.
func (s *still) comes(id string) *envoy {
	e := &envoy{stream: &stream{
		id: id, hello: hds.Hello{NodeID: id, Version: "1.40.0", Can: hds.Capability{HTTP: true, TCP: true}},
		bell: make(chan struct{}, 1),
	}}
	_ = s.join(s.now, e.stream) // there are few
	return e
}

// act is what an Envoy does between two turns of the engine.
func (e *envoy) act(t *testing.T, s *still) {
	t.Helper()
	if m := s.take(s.now, e.stream); m != nil {
		e.handed(s.now)
		if e.spec == nil || m.GetInterval().AsDuration() != e.spec.GetInterval().AsDuration() {
			e.next = s.now.Add(m.GetInterval().AsDuration())
		}
		e.spec = m
		e.told++
		if len(m.GetClusterHealthChecks()) == 0 {
			e.nothing++
		}
	}
	if e.spec == nil || s.now.Before(e.next) {
		return
	}
	e.next = s.now.Add(e.spec.GetInterval().AsDuration())
	raw, err := proto.Marshal(reportOf(e.spec))
	if err == nil {
		err = s.hear(s.now, e.stream, raw)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func reportOf(spec *healthv3.HealthCheckSpecifier) proto.Message {
	m := &healthv3.EndpointHealthResponse{}
	for _, cl := range spec.GetClusterHealthChecks() {
		cluster := &healthv3.ClusterEndpointsHealth{ClusterName: cl.GetClusterName()}
		for _, l := range cl.GetLocalityEndpoints() {
			locality := &healthv3.LocalityEndpointsHealth{Locality: l.GetLocality()}
			for _, e := range l.GetEndpoints() {
				health := corev3.HealthStatus_HEALTHY
				if e.GetAddress().GetSocketAddress().GetPortValue() == 81 {
					health = corev3.HealthStatus_UNHEALTHY
				}
				locality.EndpointsHealth = append(locality.EndpointsHealth, &healthv3.EndpointHealth{
					Endpoint: &endpointv3.Endpoint{Address: e.GetAddress()}, HealthStatus: health,
				})
			}
			cluster.LocalityEndpointsHealth = append(cluster.LocalityEndpointsHealth, locality)
		}
		m.ClusterEndpointsHealth = append(m.ClusterEndpointsHealth, cluster)
	}
	return &healthv3.HealthCheckRequestOrEndpointHealthResponse{
		RequestType: &healthv3.HealthCheckRequestOrEndpointHealthResponse_EndpointHealthResponse{EndpointHealthResponse: m},
	}
}

// pass lets time go by.
func (s *still) pass(t *testing.T, d time.Duration, envoys ...*envoy) {
	t.Helper()
	for end := s.now.Add(d); s.now.Before(end); {
		s.now = s.now.Add(10 * time.Millisecond)
		for _, e := range envoys {
			e.act(t, s)
		}
		s.turn(s.now)
	}
}

// restarted is an engine that has just begun, over a service with an endpoint that is down. Nobody wants it yet.
func restarted(t *testing.T, known bool) *still {
	t.Helper()
	s := newStill(t)
	s.cfg.Store.Commit(func(tx *facts.Tx) { tx.Await(facts.Awaiting{Datacenter: "dc1"}) })
	s.commit(func(tx *facts.Tx) {
		tx.Entries(chain.KindServiceDefaults, []chain.Entry{&chain.ServiceDefaults{Header: chain.Header{Name: "api", Meta: byTCP}}}, whole)
	})
	if known {
		s.fill()
	}
	return s
}

func (s *still) fill() {
	s.commit(func(tx *facts.Tx) {
		tx.Instances(api, []*facts.Instance{
			placed("a", "n1", "10.1.0.1", 80, nil), placed("b", "n1", "10.1.0.1", 81, nil), placed("c", "n1", "10.1.0.1", 82, nil),
		}, whole)
	})
}

// served says whether the set of the service may be served, and what is down in it then.
func (s *still) served() (bool, []uint16) {
	v := s.cfg.Store.View()
	verdicts, known := v.Verdicts(api)
	var down []uint16
	for at, verdict := range verdicts {
		if !verdict.Up {
			down = append(down, at.Port())
		}
	}
	return known || v.Awaiting().Datacenter == "", down
}

// TestAfterARestartWhatWasDownIsNeverServedAsWell has Envoys come back as they do, within a second, with probes and
// reports each second.
func TestAfterARestartWhatWasDownIsNeverServedAsWell(t *testing.T) {
	s := restarted(t, true)
	var envoys []*envoy
	at := s.now
	for _, after := range []time.Duration{50, 300, 350, 900} {
		for s.now.Sub(at) < after*time.Millisecond {
			s.pass(t, 10*time.Millisecond, envoys...)
		}
		envoys = append(envoys, s.comes(string(rune('a'+len(envoys)))))
		s.need(api)
	}
	for {
		s.pass(t, 10*time.Millisecond, envoys...)
		served, down := s.served()
		if !served {
			continue
		}
		t.Logf("served %v after the start", s.now.Sub(at))
		if !slices.Equal(down, []uint16{81}) {
			t.Errorf("down are %v, want what refuses connections", down)
		}
		break
	}
	if waited := s.now.Sub(at); waited > 3*time.Second {
		t.Errorf("a client waited %v", waited)
	}
	for _, e := range envoys {
		if e.nothing > 0 {
			t.Errorf("%s was told to probe nothing, %d times of %d", e.id, e.nothing, e.told)
		}
	}
}

func TestAClientWaitsThreeSecondsWheneverItComes(t *testing.T) {
	for name, c := range map[string]struct {
		known    bool
		checkers bool
		comes    time.Duration // when the client does
		min, max time.Duration // of its wait
	}{
		"at once":                    {true, true, 0, 2800 * time.Millisecond, 3100 * time.Millisecond},
		"later":                      {true, true, 2 * time.Second, 2800 * time.Millisecond, 3100 * time.Millisecond},
		"when most are back":         {true, true, 9 * time.Second, 2800 * time.Millisecond, 3100 * time.Millisecond},
		"when the start is over":     {true, true, 11 * time.Second, 0, 0},
		"before what it wants":       {false, true, time.Second, 2800 * time.Millisecond, 3100 * time.Millisecond},
		"where nobody probes":        {true, false, 0, 2900 * time.Millisecond, 3200 * time.Millisecond},
		"late, where nobody probes":  {true, false, 2 * time.Second, 900 * time.Millisecond, 1200 * time.Millisecond},
		"later, where nobody probes": {true, false, 4 * time.Second, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := restarted(t, c.known)
			if c.checkers {
				s.comes("mute") // is heard of, and says nothing
			}
			s.pass(t, c.comes)
			s.need(api)
			if !c.known {
				s.pass(t, 500*time.Millisecond)
				s.fill()
			}
			from := s.now
			for served, _ := s.served(); !served; served, _ = s.served() {
				s.pass(t, 10*time.Millisecond)
			}
			if waited := s.now.Sub(from); waited < c.min || waited > c.max {
				t.Errorf("it waited %v, want %v to %v", waited, c.min, c.max)
			}
		})
	}
}

func TestALoneCheckerThatWentOnceIsSoonToldAgain(t *testing.T) {
	s := restarted(t, true)
	first := s.comes("a")
	s.pass(t, 100*time.Millisecond, first)
	if len(first.stream.told) != 3 {
		t.Fatalf("it is told of %d endpoints", len(first.stream.told))
	}
	s.leave(s.now, first.stream, hds.Left)
	second := s.comes("a")
	s.pass(t, time.Second, second)
	if len(second.stream.told) != 0 {
		t.Error("it is told at once what may have ended it")
	}
	s.pass(t, 2500*time.Millisecond, second)
	if len(second.stream.told) != 3 {
		t.Errorf("it is told of %d endpoints", len(second.stream.told))
	}
}

func TestAProbeThatEndsCheckersIsNamed(t *testing.T) {
	s := restarted(t, true)
	for _, id := range []string{"a", "b", "c"} {
		e := s.comes(id)
		s.pass(t, 100*time.Millisecond, e)
		s.leave(s.now, e.stream, hds.Left)
	}
	last := s.comes("d")
	s.pass(t, time.Second, last)
	h := s.health(s.now, s.services["api"], s.overview(s.now))
	if len(last.stream.told) != 0 || len(h.Notes) != 1 || !strings.Contains(h.Notes[0], "no Envoy 1.40.0 is given the probe tcp every 1s") {
		t.Errorf("%+v", h)
	}
}

// Whoever has a probe already shows that it is harmless, though nothing new is sent.
func TestAProbeThatWasForgottenIsProvenByWhoHasIt(t *testing.T) {
	s := restarted(t, true)
	s.cfg.ReportInterval = 200 * time.Millisecond
	envoys := []*envoy{s.comes("a"), s.comes("b"), s.comes("c")}
	s.pass(t, 12*time.Second, envoys...)
	s.canary = hds.NewCanary(s.cfg.ReportInterval)
	for _, e := range envoys {
		s.due[e.id] = struct{}{}
	}
	s.pass(t, 1500*time.Millisecond, envoys...)
	for _, e := range envoys {
		if len(e.stream.told) != 3 {
			t.Errorf("%s is told of %d endpoints", e.id, len(e.stream.told))
		}
	}
}

// An Envoy knows nothing yet of what has come to another zone, and says that it is down.
func TestWhatMovesToAnotherZoneIsNotDownForThat(t *testing.T) {
	s := restarted(t, false)
	s.need(api)
	moved := *placed("b", "n1", "10.1.0.1", 81, nil)
	for _, zone := range []string{"a", "b"} {
		moved.Node.Locality = &facts.Locality{Zone: zone}
		moved.Service.ModifyIndex++
		in := moved
		s.commit(func(tx *facts.Tx) { tx.Instances(api, []*facts.Instance{&in}, whole) })
		if zone == "b" {
			break
		}
		s.pass(t, 100*time.Millisecond)
	}
	envoys := []*envoy{s.comes("a"), s.comes("b"), s.comes("c")}
	s.pass(t, 10*time.Second, envoys...)
	if _, down := s.served(); !slices.Equal(down, []uint16{81}) {
		t.Fatalf("down are %v", down)
	}
	moved.Node.Locality = &facts.Locality{Zone: "c"}
	moved.Service.ModifyIndex++
	s.commit(func(tx *facts.Tx) { tx.Instances(api, []*facts.Instance{&moved}, whole) })
	s.pass(t, 400*time.Millisecond, envoys...)
	for k := range s.services["api"].probed {
		x, _ := s.verdicts.Explain(k)
		for _, v := range x.Votes {
			if v.Vote != hds.NoVote {
				t.Errorf("%+v", v)
			}
		}
	}
}
