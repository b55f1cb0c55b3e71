package hds

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

type message = healthv3.HealthCheckRequestOrEndpointHealthResponse

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// said is an endpoint of a report: its status in Envoy's words, and the HTTP status it answered with.
type said struct {
	status corev3.HealthStatus
	code   int
}

// report is the report of an Envoy about all of a specifier, in both shapes, or only flat.
func report(t testing.TB, s Specifier, flatOnly bool, say func(a Address) *said) []byte {
	t.Helper()
	out := &healthv3.EndpointHealthResponse{}
	for _, c := range s.Clusters {
		cluster := &healthv3.ClusterEndpointsHealth{ClusterName: c.Name}
		for _, l := range c.Localities {
			locality := &healthv3.LocalityEndpointsHealth{Locality: &corev3.Locality{Region: l.Region, Zone: l.Zone}}
			for _, a := range l.Endpoints {
				what := say(a)
				if what == nil {
					continue
				}
				e := &healthv3.EndpointHealth{Endpoint: endpointAt(a), HealthStatus: what.status}
				if what.code != 0 {
					e.HealthMetadata = &structpb.Struct{Fields: map[string]*structpb.Value{"http_status_code": structpb.NewNumberValue(float64(what.code))}}
				}
				locality.EndpointsHealth = append(locality.EndpointsHealth, e)
			}
			cluster.LocalityEndpointsHealth = append(cluster.LocalityEndpointsHealth, locality)
			out.EndpointsHealth = append(out.EndpointsHealth, locality.GetEndpointsHealth()...) //nolint:staticcheck // SA1019: Envoy sends both
		}
		if !flatOnly {
			out.ClusterEndpointsHealth = append(out.ClusterEndpointsHealth, cluster)
		}
	}
	return marshal(t, &message{RequestType: &healthv3.HealthCheckRequestOrEndpointHealthResponse_EndpointHealthResponse{EndpointHealthResponse: out}})
}

func endpointAt(a Address) *endpointv3.Endpoint {
	return &endpointv3.Endpoint{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: a.IP, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: a.Port},
	}}}}
}

func healthy(Address) *said { return &said{corev3.HealthStatus_HEALTHY, 200} }

// told is the reports of a checker that was told of n endpoints at the time.
func told(now time.Time, n int) (*Reports, Specifier, []Duty) {
	var duties []Duty
	for i := range n {
		duties = append(duties, duty(i, "", ""))
	}
	spec, _ := Compose(all(), time.Second, duties)
	r := NewReports(now, time.Second)
	r.Told(now, spec)
	return r, spec, duties
}

func TestAReportInEitherShapeIsWhatItSays(t *testing.T) {
	for _, flat := range []bool{false, true} {
		now := time.Unix(1000, 0)
		r, spec, duties := told(now, 5)
		say := map[string]*said{
			duties[0].Address: {corev3.HealthStatus_HEALTHY, 200}, duties[1].Address: {corev3.HealthStatus_UNHEALTHY, 503},
			duties[2].Address: {corev3.HealthStatus_UNHEALTHY, 0}, duties[3].Address: {corev3.HealthStatus_TIMEOUT, 0},
			duties[4].Address: {corev3.HealthStatus_DEGRADED, 0},
		}
		got, err := r.Receive(now, report(t, spec, flat, func(a Address) *said { return say[a.IP] }))
		want := []Observation{
			{duties[0].Key, StatusHealthy, 200},
			{duties[1].Key, StatusAnswered, 503},
			{duties[2].Key, StatusUnhealthy, 0},
			{duties[3].Key, StatusTimeout, 0},
			{duties[4].Key, StatusOther, 0},
		}
		if err != nil || !reflect.DeepEqual(got, want) || !r.Matched() {
			t.Errorf("flat %t: %v, error %v, matched %t", flat, got, err, r.Matched())
		}
		say[duties[1].Address] = say[duties[0].Address]
		got, err = r.Receive(now, report(t, spec, flat, func(a Address) *said { return say[a.IP] }))
		if err != nil || !reflect.DeepEqual(got, []Observation{{duties[1].Key, StatusHealthy, 200}}) {
			t.Errorf("flat %t: the second report says %v, error %v", flat, got, err)
		}
		if got, err = r.Receive(now, report(t, spec, flat, func(a Address) *said { return say[a.IP] })); err != nil || got != nil {
			t.Errorf("flat %t: the same again says %v, error %v", flat, got, err)
		}
	}
}

func TestOneAddressInTwoClustersOfAFlatReport(t *testing.T) {
	now := time.Unix(1000, 0)
	a, b := duty(1, "", ""), duty(1, "", "")
	b.Set = "other"
	spec, _ := Compose(all(), time.Second, []Duty{a, b})
	for _, alike := range []bool{true, false} {
		r := NewReports(now, time.Second)
		r.Told(now, spec)
		n := 0
		got, err := r.Receive(now, report(t, spec, true, func(Address) *said {
			n++
			if n == 2 && !alike {
				return &said{corev3.HealthStatus_TIMEOUT, 0}
			}
			return &said{corev3.HealthStatus_HEALTHY, 0}
		}))
		want := map[bool]Status{true: StatusHealthy, false: StatusOther}[alike]
		if err != nil || len(got) != 2 || got[0].Status != want || got[1].Status != want {
			t.Errorf("alike %t: %v, %v", alike, got, err)
		}
	}
}

// A report that was on its way as the duty changed says nothing later either, nor does one that was read late.
func TestWhatWasSaidBeforeACheckerCouldKnowIsNotHeldAgainstIt(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	r, spec, duties := told(start, 3)
	more, _ := Compose(all(), time.Second, append(duties, duty(3, "", "")))
	old := report(t, spec, false, healthy)
	fine := func(heard, until float64) {
		t.Helper()
		if _, err := r.Receive(at(heard), old); err != nil {
			t.Fatal(err)
		}
		if got := r.Problem(at(until)); got != "" {
			t.Fatalf("after %v s the problem is %q", until, got)
		}
	}
	fine(1, 1)
	r.Told(at(2), more)
	fine(2.1, 5)
	r.Handed(at(5)) // it was written no earlier
	fine(5.5, 5.5)
	fine(6.9, 8)
	r.Excuse(time.Second)
	fine(7.9, 7.9)
	if _, err := r.Receive(at(8.9), old); err != nil || r.Problem(at(8.9)) == "" {
		t.Error("a checker that goes on with its old duties is not found out")
	}
}

func TestACheckerIsBrokenWhenItIsSilentOrReportsSomethingElse(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	r, spec, duties := told(start, 3)
	problem := func(when float64, part string) {
		t.Helper()
		if got := r.Problem(at(when)); (got == "") != (part == "") || !strings.Contains(got, part) {
			t.Fatalf("after %v s the problem is %q, and should be %q", when, got, part)
		}
	}
	receive := func(when float64, raw []byte) {
		t.Helper()
		if _, err := r.Receive(at(when), raw); err != nil {
			t.Fatal(err)
		}
	}
	problem(3, "")
	problem(3.1, "has not reported")
	receive(4, report(t, spec, false, healthy))
	problem(4, "")
	receive(5, nil)
	problem(5, "")
	receive(7, nil)
	problem(7, "does not report 10.0.0.0:80")
	receive(8, report(t, spec, false, healthy))
	problem(8, "")
	more, _ := Compose(all(), time.Second, append(duties, duty(3, "", "")))
	r.Told(at(9), more)
	receive(10, report(t, spec, false, healthy))
	if r.Matched() {
		t.Fatal("a report about the old duty matches the new one")
	}
	problem(10, "")
	receive(11.5, report(t, spec, false, healthy))
	problem(11.5, "does not report 10.0.0.3:80")
	receive(12, report(t, more, false, healthy))
	problem(12, "")
	r.Told(at(13), spec)
	receive(14, report(t, more, false, healthy))
	receive(15.5, report(t, more, false, healthy))
	problem(15.5, "was not told to probe")
	receive(16, report(t, spec, false, healthy))
	problem(16, "")
	problem(19.1, "has not reported for 3.1s")
}

func TestAnEndpointThatIsLeftOutSaysNothingMore(t *testing.T) {
	now := time.Unix(1000, 0)
	r, spec, duties := told(now, 2)
	if _, err := r.Receive(now, report(t, spec, false, healthy)); err != nil {
		t.Fatal(err)
	}
	got, err := r.Receive(now, report(t, spec, false, func(a Address) *said {
		if a.IP == duties[1].Address {
			return nil
		}
		return healthy(a)
	}))
	if err != nil || !slices.Equal(got, []Observation{{Key: duties[1].Key}}) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestWhatWasReportedIsNotNewsAfterAnotherDuty(t *testing.T) {
	now := time.Unix(1000, 0)
	r, spec, duties := told(now, 2)
	if _, err := r.Receive(now, report(t, spec, false, healthy)); err != nil {
		t.Fatal(err)
	}
	more, _ := Compose(all(), time.Second, append(duties, duty(2, "", "")))
	r.Told(now, more)
	got, err := r.Receive(now, report(t, more, false, healthy))
	if err != nil || len(got) != 1 || got[0].Address != "10.0.0.2" {
		t.Errorf("%v, %v", got, err)
	}
}

func TestAnAddressIsItselfHoweverItIsWritten(t *testing.T) {
	now := time.Unix(1000, 0)
	d := duty(0, "", "")
	d.Address = "2001:DB8:0:0::1"
	e := duty(1, "", "")
	e.Address = "::ffff:10.9.9.9"
	spec, refused := Compose(all(), time.Second, []Duty{d, e})
	r := NewReports(now, time.Second)
	r.Told(now, spec)
	written := map[string]string{"2001:db8::1": "2001:0db8:0::0001", "10.9.9.9": "::ffff:10.9.9.9"}
	spec2 := spec
	spec2.Clusters = slices.Clone(spec.Clusters)
	spec2.Clusters[0].Localities = []Locality{{Endpoints: []Address{{written["10.9.9.9"], 80}, {written["2001:db8::1"], 80}}}}
	got, err := r.Receive(now, report(t, spec2, false, healthy))
	if err != nil || len(refused) != 0 || len(got) != 2 || !r.Matched() {
		t.Errorf("%v, %v, refused %v, problem %q", got, err, refused, r.mismatch)
	}
}

func TestAMalformedReportIsAnErrorAndNoMore(t *testing.T) {
	now := time.Unix(1000, 0)
	r, spec, _ := told(now, 2)
	good := report(t, spec, false, healthy)
	for i := range good {
		if _, err := r.Receive(now, good[:i]); err != nil && !errors.Is(err, errReport) {
			t.Fatalf("the first %d bytes: %v", i, err)
		}
	}
	if _, err := r.Receive(now, good); err != nil || !r.Matched() {
		t.Errorf("the whole: %v", err)
	}
}

func TestHello(t *testing.T) {
	node := &corev3.Node{
		Id: "web-1", Cluster: "web", Locality: &corev3.Locality{Region: "r", Zone: "z"},
		Metadata:             &structpb.Struct{Fields: map[string]*structpb.Value{"a": structpb.NewStringValue("b")}},
		UserAgentVersionType: &corev3.Node_UserAgentBuildVersion{UserAgentBuildVersion: buildVersion(1, 40, 0)},
	}
	for _, x := range []string{"http", "tcp", "grpc", "redis", "thrift"} {
		node.Extensions = append(node.Extensions, &corev3.Extension{Category: checkerCategory, Name: checkerCategory + "." + x},
			&corev3.Extension{Category: "envoy.filters.http", Name: "envoy.filters.http." + x})
	}
	raw := marshal(t, &message{RequestType: &healthv3.HealthCheckRequestOrEndpointHealthResponse_HealthCheckRequest{HealthCheckRequest: &healthv3.HealthCheckRequest{
		Node: node, Capability: &healthv3.Capability{HealthCheckProtocols: []healthv3.Capability_Protocol{healthv3.Capability_HTTP, healthv3.Capability_TCP}},
	}}})
	h, ok, err := DecodeHello(raw)
	want := Hello{NodeID: "web-1", NodeCluster: "web", Region: "r", Zone: "z", Version: "1.40.0", Metadata: h.Metadata, Can: all(), probesGRPC: true}
	if err != nil || !ok || !reflect.DeepEqual(h, want) {
		t.Errorf("%+v, %t, %v", h, ok, err)
	}
	s := &structpb.Struct{}
	if err := proto.Unmarshal(h.Metadata, s); err != nil || s.GetFields()["a"].GetStringValue() != "b" {
		t.Errorf("the metadata are %v, %v", s, err)
	}
	node.UserAgentVersionType = &corev3.Node_UserAgentBuildVersion{UserAgentBuildVersion: buildVersion(1, 39, 9)}
	raw = marshal(t, &message{RequestType: &healthv3.HealthCheckRequestOrEndpointHealthResponse_HealthCheckRequest{HealthCheckRequest: &healthv3.HealthCheckRequest{Node: node}}})
	if h, _, err := DecodeHello(raw); err != nil || h.Can.GRPC || !h.Can.Redis {
		t.Errorf("one that a grpc probe may end can %+v, %v", h.Can, err)
	}
	old := marshal(t, &message{RequestType: &healthv3.HealthCheckRequestOrEndpointHealthResponse_HealthCheckRequest{HealthCheckRequest: &healthv3.HealthCheckRequest{
		Node: &corev3.Node{Id: "old"}, Capability: &healthv3.Capability{HealthCheckProtocols: []healthv3.Capability_Protocol{healthv3.Capability_HTTP, healthv3.Capability_TCP}},
	}}})
	if h, ok, err := DecodeHello(old); err != nil || !ok || h.Can != (Capability{HTTP: true, TCP: true}) {
		t.Errorf("an old one can %+v, %t, %v", h.Can, ok, err)
	}
	if _, ok, err := DecodeHello(nil); ok || err != nil {
		t.Errorf("a message of nothing: %t, %v", ok, err)
	}
}

// BenchmarkIngest is a second of a fleet: the reports of 1,000 checkers with 150 endpoints each.
func BenchmarkIngest(b *testing.B) {
	const checkers, endpoints = 1000, 150
	now := time.Unix(1000, 0)
	for _, changes := range []string{"nothing", "one endpoint", "everything"} {
		b.Run(changes+" changes", func(b *testing.B) {
			var fleet []*Reports
			var ids []string
			var messages [][2][]byte
			verdicts := NewVerdicts(VerdictsConfig{ReportInterval: time.Second})
			for i := range checkers {
				var duties []Duty
				for j := range endpoints { // three checkers to each endpoint
					duties = append(duties, duty(i/3*endpoints+j, "", ""))
				}
				spec, _ := Compose(all(), time.Second, duties)
				r := NewReports(now, time.Second)
				r.Told(now, spec)
				changed := func(a Address) *said {
					if changes == "everything" || (changes == "one endpoint" && a.IP == duties[7].Address) {
						return &said{corev3.HealthStatus_UNHEALTHY, 503}
					}
					return healthy(a)
				}
				messages = append(messages, [2][]byte{report(b, spec, false, healthy), report(b, spec, false, changed)})
				verdicts.Put(duties...)
				verdicts.Assign(now, checker(i, "", ""), duties, nil)
				fleet, ids = append(fleet, r), append(ids, checker(i, "", "").ID)
			}
			second := func(n int) {
				now = now.Add(time.Second)
				for i, r := range fleet {
					seen, err := r.Receive(now, messages[i][n%2])
					if err != nil {
						b.Fatal(err)
					}
					verdicts.Report(now, ids[i], seen)
				}
				verdicts.Settle(now)
			}
			second(1) // what is new at the start
			b.ReportAllocs()
			b.SetBytes(int64(checkers * len(messages[0][0])))
			for n := 0; b.Loop(); n++ {
				second(n)
			}
		})
	}
}

func BenchmarkHello(b *testing.B) {
	node := &corev3.Node{Id: "web-1"}
	for i := range 516 {
		node.Extensions = append(node.Extensions, &corev3.Extension{
			Category: "envoy.filters.http", Name: fmt.Sprintf("envoy.filters.http.%d", i),
			TypeUrls: []string{"envoy.extensions.filters.http.something.v3.Something", "envoy.config.filter.http.something.v2.Something"},
		})
	}
	raw := marshal(b, &message{RequestType: &healthv3.HealthCheckRequestOrEndpointHealthResponse_HealthCheckRequest{HealthCheckRequest: &healthv3.HealthCheckRequest{Node: node}}})
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := DecodeHello(raw); err != nil {
			b.Fatal(err)
		}
	}
}

func buildVersion(major, minor, patch uint32) *corev3.BuildVersion {
	return &corev3.BuildVersion{Version: &typev3.SemanticVersion{MajorNumber: major, MinorNumber: minor, Patch: patch}}
}
