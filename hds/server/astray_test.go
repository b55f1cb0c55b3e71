package server

import (
	"fmt"
	"testing"
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"google.golang.org/protobuf/proto"
)

// strays has these report on what nobody was told to probe for a while, and others as they were told.
func (s *still) strays(t *testing.T, d time.Duration, fleet []*envoy, astray ...*envoy) {
	t.Helper()
	raw, err := proto.Marshal(reportOf(&healthv3.HealthCheckSpecifier{ClusterHealthChecks: []*healthv3.ClusterHealthCheck{{
		ClusterName: "other", LocalityEndpoints: []*healthv3.LocalityEndpoints{{Endpoints: []*endpointv3.Endpoint{{}}}},
	}}}))
	if err != nil {
		t.Fatal(err)
	}
	for end := s.now.Add(d); s.now.Before(end); {
		s.pass(t, 250*time.Millisecond, fleet...)
		for _, e := range astray {
			if s.take(s.now, e.stream) != nil {
				e.handed(s.now)
			}
			if err := s.hear(s.now, e.stream, raw); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func broken(fleet []*envoy) int {
	n := 0
	for _, e := range fleet {
		if e.broken != "" {
			n++
		}
	}
	return n
}

// fleetOfSix is six checkers of one stream each, and what they probe.
func fleetOfSix(t *testing.T) (*still, []*envoy) {
	s := restarted(t, true)
	s.need(api)
	var fleet []*envoy
	for i := range 6 {
		fleet = append(fleet, s.comes(fmt.Sprint("c", i)))
	}
	s.pass(t, 5*time.Second, fleet...)
	return s, fleet
}

func TestAThirdAtMostLoseTheirDutiesForWhatTheyReport(t *testing.T) {
	s, fleet := fleetOfSix(t)
	s.strays(t, 4*time.Second, nil, fleet...)
	if n := broken(fleet); n < 1 || n > 2 {
		t.Errorf("%d of 6 checkers are broken", n)
	}
}

func TestOneIdentityThatGoesAstrayShieldsNoOther(t *testing.T) {
	s, fleet := fleetOfSix(t)
	var bad []*envoy
	for range 6 {
		bad = append(bad, s.comes("hostile"))
	}
	s.strays(t, 6*time.Second, fleet, bad...)
	if n := broken(bad); n == 0 {
		t.Fatal("who reports something else is not broken")
	}
	var lost *envoy
	for _, e := range fleet {
		if len(e.stream.told) > 0 {
			lost = e
		}
	}
	if lost == nil {
		t.Fatal("nobody has anything to probe")
	}
	s.strays(t, 4*time.Second, others(fleet, lost), append(bad, lost)...)
	if lost.broken == "" {
		t.Error("a checker that reports something else keeps its duties, because another identity does so too")
	}
}

func others(fleet []*envoy, but *envoy) []*envoy {
	var list []*envoy
	for _, e := range fleet {
		if e != but {
			list = append(list, e)
		}
	}
	return list
}
