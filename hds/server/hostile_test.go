package server

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/hds"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/snapshot"
)

// The registration of both is waited for, and one who goes ends the wait of itself only.
func TestOneOfTwoWithOneNameMayGo(t *testing.T) {
	store := facts.New()
	s := New(Config{Store: store, Logger: hclog.NewNullLogger(), Datacenter: "dc1"})
	proxy := snapshot.Client{ID: "p", Node: "n", Service: "web"}
	first, leave := context.WithCancel(t.Context())
	answers := make(chan bool, 2)
	go func() { answers <- s.registered(first, proxy) }()
	go func() { answers <- s.registered(t.Context(), proxy) }()
	needed := func(n int) {
		t.Helper()
		testenv.Eventually(t, 10*time.Second, func() error {
			if _, who := store.Needs(); who[facts.Proxies("dc1", "web")] != n {
				return fmt.Errorf("needed are %v", who)
			}
			return nil
		})
	}
	needed(2)
	leave()
	if <-answers {
		t.Error("nobody is registered")
	}
	needed(1)
	store.Commit(func(tx *facts.Tx) {
		in := placed("p", "n", "", 80, nil)
		in.Service.Proxy = &facts.Proxy{DestinationServiceName: "web"}
		tx.Instances(facts.Proxies("dc1", "web"), []*facts.Instance{in}, whole)
	})
	if !<-answers {
		t.Error("it is not found to be registered")
	}
}

func fetcher(id, node string) *stream {
	return &stream{
		id: id, hello: hds.Hello{NodeID: node, Can: hds.Capability{TCP: true}}, bell: make(chan struct{}, 1),
		lease: &lease{holder: holder{host: "127.0.0.1"}},
	}
}

func TestLeasesAndStandbysHaveBounds(t *testing.T) {
	s := newStill(t)
	if _, err := s.renew(s.now, fetcher("n", "")); err != nil {
		t.Fatal(err)
	}
	s.leased += maxLeases - 1
	if _, err := s.renew(s.now, fetcher("m", "")); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one lease too many: %v", err)
	}
	s.leased -= maxLeases - 1
	s.now = s.now.Add(leaseIntervals*s.cfg.ReportInterval + time.Millisecond)
	s.inspect(s.now)
	if len(s.checkers)+len(s.leases)+s.leased != 0 {
		t.Errorf("after they ended there are %d checkers, %d holders and %d leases", len(s.checkers), len(s.leases), s.leased)
	}
	for i := range maxStreams + 1 {
		err := s.join(s.now, &stream{id: "token:x", bell: make(chan struct{}, 1)})
		if (status.Code(err) == codes.ResourceExhausted) != (i == maxStreams) {
			t.Fatalf("stream %d: %v", i, err)
		}
	}
}

func TestWhoFetchesMuchIsHeardTenTimesAReport(t *testing.T) {
	s := newStill(t)
	h := fetcher("n", "")
	if m, err := s.renew(s.now, h); m == nil || err != nil {
		t.Fatal(m, err)
	}
	for range 1000 {
		s.now = s.now.Add(time.Millisecond)
		if m, err := s.reported(s.now, h, nil); m == nil || err != nil {
			t.Fatal(m, err)
		}
	}
	if s.counts.Reports > 10 {
		t.Errorf("%d reports in a second", s.counts.Reports)
	}
}

func TestAStreamThatFloodsIsReadTenTimesAReport(t *testing.T) {
	p, now := newPace(time.Second), time.Unix(1_000_000, 0)
	from, read := now, 0
	for ; now.Sub(from) < 10*time.Second; read++ {
		now = now.Add(p.pause(now))
	}
	if read > 10*10+burst+1 {
		t.Errorf("%d messages in 10 s", read)
	}
	now = now.Add(time.Minute)
	if d := p.pause(now); d != leastPause {
		t.Errorf("after silence the next message is read after %v", d)
	}
}
