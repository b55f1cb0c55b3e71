package server

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/hds"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// still is an engine that only does what it is told.
type still struct {
	*engine
	now time.Time
}

func newStill(t testing.TB) *still {
	t.Helper()
	e := newEngine(Config{
		Store: facts.New(), Logger: hclog.NewNullLogger(), Datacenter: "dc1", TrustDomain: "catenary.local",
		StartWithin: 3 * time.Second,
	}.withDefaults())
	e.sub = e.cfg.Store.Subscribe()
	t.Cleanup(e.sub.Close)
	s := &still{e, time.Unix(1_000_000, 0)}
	s.begin(s.now)
	return s
}

func (s *still) commit(f func(tx *facts.Tx)) {
	s.cfg.Store.Commit(f)
	s.changed(s.now)
}

// need has a client want the topics.
func (s *still) need(topics ...facts.Topic) {
	s.cfg.Store.Need("a client", topics...)
	s.follow(s.now)
}

func placed(id, node, address string, port int, meta map[string]string) *facts.Instance {
	return &facts.Instance{
		Node:    facts.Node{Node: node, Address: "10.0.0.1", ModifyIndex: 1},
		Service: facts.Service{ID: id, Service: "api", Address: address, Port: port, Meta: meta, ModifyIndex: 1},
	}
}

var (
	api     = facts.Health("dc1", "api")
	mesh    = facts.Connect("dc1", "api")
	whole   = facts.Reading{Confirmed: true}
	byTCP   = map[string]string{"hds-protocol": "tcp"}
	byHTTP  = map[string]string{"hds-protocol": "http"}
	byNoise = map[string]string{"hds-protocol": "noise"}
)

// probes are what is done, by address.
func (s *still) probes() map[string]string {
	list := map[string]string{}
	for k, c := range s.services["api"].probed {
		list[addressText(k)] = string(c.duty.Probe.Protocol) + " for " + c.in.Service.ID
	}
	return list
}

func TestTwoInstancesAtOneAddress(t *testing.T) {
	s := newStill(t)
	s.need(api)
	s.commit(func(tx *facts.Tx) {
		tx.Instances(api, []*facts.Instance{
			placed("a", "n1", "10.1.0.1", 80, byTCP), placed("b", "n1", "10.1.0.1", 80, byHTTP),
			placed("c", "n2", "10.1.0.1", 80, byNoise), placed("d", "n2", "10.1.0.2", 80, byTCP),
		}, whole)
	})
	want := map[string]string{"10.1.0.1:80": "tcp for a", "10.1.0.2:80": "tcp for d"}
	if got := s.probes(); !maps.Equal(got, want) {
		t.Errorf("probed are %v, want %v", got, want)
	}
	h := s.health(s.now, s.services["api"], s.overview(s.now))
	if len(h.Notes) != 2 || !strings.Contains(h.Notes[0], "b on n1 has the address 10.1.0.1:80 of a on n1 too") || !strings.Contains(h.Notes[0], "not http") {
		t.Errorf("notes: %q", h.Notes)
	}
	if len(h.Refused) != 1 || !strings.Contains(h.Refused[0].Reason, "noise") {
		t.Errorf("refused: %v", h.Refused)
	}
	s.commit(func(tx *facts.Tx) { tx.RemoveInstance(api, "n1", "a", 9) })
	want["10.1.0.1:80"] = "http for b"
	if got := s.probes(); !maps.Equal(got, want) {
		t.Errorf("after the first went, probed are %v, want %v", got, want)
	}
}

func TestAnInstanceThatIsThereByTwoTopicsSharesWithNobody(t *testing.T) {
	s := newStill(t)
	s.need(api, mesh)
	native := placed("a", "n1", "10.1.0.1", 80, byTCP)
	native.Service.Connect.Native = true
	s.commit(func(tx *facts.Tx) {
		tx.Instances(api, []*facts.Instance{native}, whole)
		tx.Instances(mesh, []*facts.Instance{native}, whole)
	})
	if h := s.health(s.now, s.services["api"], s.overview(s.now)); len(h.Endpoints) != 1 || len(h.Notes)+len(h.Refused) != 0 {
		t.Errorf("%+v", h)
	}
}

// What demands a client certificate does so whoever dials it.
func TestANativeInstanceIsProbedByConnectOnly(t *testing.T) {
	s := newStill(t)
	s.need(api)
	native := placed("a", "n1", "10.1.0.1", 80, byHTTP)
	native.Service.Connect.Native = true
	s.commit(func(tx *facts.Tx) { tx.Instances(api, []*facts.Instance{native}, whole) })
	if h := s.health(s.now, s.services["api"], s.overview(s.now)); len(h.Endpoints) != 0 || len(h.Refused) != 1 {
		t.Errorf("%+v", h)
	}
}

func TestInstanceMetaAsksWithoutAClientWhereAllIsKnown(t *testing.T) {
	sidecar := placed("a-sidecar", "n1", "10.1.0.1", 81, byTCP)
	sidecar.Service.Service, sidecar.Service.Kind = "api-sidecar", kindProxy
	for _, closed := range []bool{true, false} {
		s := newStill(t)
		put := func(meta map[string]string) {
			s.commit(func(tx *facts.Tx) {
				if closed {
					tx.CloseWorld()
				}
				tx.Services("dc1", []string{"api", "api-sidecar"}, whole)
				tx.Instances(api, []*facts.Instance{placed("a", "n1", "10.1.0.1", 80, meta)}, whole)
				tx.Instances(facts.Health("dc1", "api-sidecar"), []*facts.Instance{sidecar}, whole)
			})
		}
		put(nil)
		if n := len(s.services); n != 0 {
			t.Errorf("%d services though none asks", n)
		}
		put(byTCP)
		if n := s.assignment.Len(); n != map[bool]int{true: 1, false: 0}[closed] {
			t.Errorf("closed=%t: %d endpoints are probed", closed, n)
		}
		put(nil)
		if n := len(s.services) + s.assignment.Len(); n != 0 {
			t.Errorf("closed=%t: something is left of what asks no more", closed)
		}
	}
}

// surveyed is all that a survey has found out.
func (s *still) surveyed() string {
	svc := s.services["api"]
	var text []string
	for k, c := range svc.probed {
		text = append(text, fmt.Sprintf("%v %v %s %s", k, c.duty, c.from, c.consul()))
	}
	refused, notes := svc.told()
	for _, r := range refused {
		text = append(text, fmt.Sprint(r))
	}
	slices.Sort(text)
	return strings.Join(append(text, notes...), "\n")
}

// TestASurveyOfWhatChangedFindsWhatAWholeOneFinds changes instances at random.
func TestASurveyOfWhatChangedFindsWhatAWholeOneFinds(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 9))
		s := newStill(t)
		s.need(api, mesh)
		for round := range 40 {
			s.commit(func(tx *facts.Tx) {
				for range 1 + r.IntN(4) {
					topic := []facts.Topic{api, mesh}[r.IntN(2)]
					id, node := fmt.Sprint("i", r.IntN(8)), fmt.Sprint("N", r.IntN(3))
					if r.IntN(4) == 0 {
						tx.RemoveInstance(topic, node, id, 1<<40)
						continue
					}
					in := placed(id, node, fmt.Sprint("10.1.0.", 1+r.IntN(4)), 80, []map[string]string{nil, byTCP, byHTTP, byNoise}[r.IntN(4)])
					in.Service.ModifyIndex = uint64(round + 2)
					in.Checks = []facts.Check{{CheckID: "c", Status: []facts.CheckStatus{facts.StatusPassing, facts.StatusCritical}[r.IntN(2)], ModifyIndex: uint64(round + 2)}}
					tx.PutInstance(topic, in)
				}
			})
			got, keys := s.surveyed(), len(s.services["api"].probed)
			if s.assignment.Len() != keys || s.verdicts.Len() != keys {
				t.Fatalf("seed %d: %d endpoints are probed, of which %d are assigned and %d counted", seed, keys, s.assignment.Len(), s.verdicts.Len())
			}
			s.survey(s.cfg.Store.View(), s.services["api"], true)
			if want := s.surveyed(); got != want {
				t.Fatalf("seed %d, round %d: by what changed\n%s\n\nwholly\n%s", seed, round, got, want)
			}
		}
	}
}

// large is a probed service of 5,000 instances; the returned function flips a check of one, commits, and says what
// is to be taken in.
func large(t testing.TB) (*still, func()) {
	s := newStill(t)
	s.need(api)
	var list []*facts.Instance
	for i := range 5000 {
		in := placed(fmt.Sprintf("api-%05d", i), fmt.Sprint("n", i%100), fmt.Sprintf("10.1.%d.%d", i/250, i%250), 80, nil)
		in.Checks = []facts.Check{{CheckID: "c", Status: facts.StatusPassing, ModifyIndex: 1}}
		list = append(list, in)
	}
	s.commit(func(tx *facts.Tx) {
		tx.Entries(chain.KindServiceDefaults, []chain.Entry{&chain.ServiceDefaults{Header: chain.Header{Name: "api", Meta: byTCP}}}, whole)
		tx.Instances(api, list, whole)
	})
	if n := s.assignment.Len(); n != 5000 {
		t.Fatalf("%d endpoints are probed", n)
	}
	n := uint64(1)
	return s, func() {
		n++
		in := *list[2500]
		in.Checks = []facts.Check{{CheckID: "c", Status: []facts.CheckStatus{facts.StatusPassing, facts.StatusCritical}[n%2], ModifyIndex: n}}
		s.cfg.Store.Commit(func(tx *facts.Tx) { tx.PutInstance(api, &in) })
	}
}

func TestAFlipInALargeServiceCostsAFlip(t *testing.T) {
	s, flip := large(t)
	allocations := testing.AllocsPerRun(10, func() {
		flip()
		s.changed(s.now)
	})
	if allocations > 500 {
		t.Errorf("a flip of one of 5,000 instances makes %v allocations", allocations)
	}
	before := s.services["api"].probed[hds.Key{Set: s.services["api"].set, Address: "10.1.10.0", Port: 80}]
	flip()
	s.changed(s.now)
	after := s.services["api"].probed[before.duty.Key]
	if reflect.DeepEqual(before.consul(), after.consul()) {
		t.Error("the flip was not taken in")
	}
}

func BenchmarkFlip(b *testing.B) {
	s, flip := large(b)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		flip()
		b.StartTimer()
		s.changed(s.now)
	}
}

func BenchmarkFlipOfAVerdict(b *testing.B) {
	s, _ := large(b)
	svc := s.services["api"]
	keys := slices.Collect(maps.Keys(svc.probed))[:1]
	s.unhold(svc)
	for k := range svc.probed {
		svc.verdicts[netip.AddrPortFrom(netip.MustParseAddr(k.Address), uint16(k.Port))] = facts.Verdict{Up: true}
	}
	b.ReportAllocs()
	for b.Loop() {
		s.publish(svc, keys)
	}
}
