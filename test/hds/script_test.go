package hds_test

import (
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"google.golang.org/grpc"

	"github.com/catenary-mesh/catenary/hds"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// script is a server of health discovery that says what a test wants, and notes when what came.
type script struct {
	healthv3.UnimplementedHealthDiscoveryServiceServer
	t    *testing.T
	port int
	stop func()

	mu      sync.Mutex
	news    chan struct{} // closed when there is something to send
	spec    *healthv3.HealthCheckSpecifier
	sent    time.Time
	streams []time.Time
	hellos  []*healthv3.HealthCheckRequest
	reports []report
}

// report is one of an Envoy.
type report struct {
	at time.Time
	// empty is one with the oneof unset.
	empty  bool
	health map[int]told
}

// told is what a report says of a port.
type told struct {
	health string
	status int // of HTTP, or 0
}

func startScript(t *testing.T) *script {
	t.Helper()
	s := &script{t: t, port: testenv.FreePort(t), news: make(chan struct{})}
	s.start()
	t.Cleanup(func() { s.stop() })
	return s
}

// start serves, again after a stop.
func (s *script) start() {
	s.t.Helper()
	var listener net.Listener
	testenv.Eventually(s.t, patience, func() (err error) {
		listener, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", s.port))
		return err
	})
	server := grpc.NewServer()
	healthv3.RegisterHealthDiscoveryServiceServer(server, s)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	s.stop = sync.OnceFunc(func() {
		server.Stop()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
	})
}

// StreamHealthCheck implements [healthv3.HealthDiscoveryServiceServer].
func (s *script) StreamHealthCheck(st healthv3.HealthDiscoveryService_StreamHealthCheckServer) error {
	failed := make(chan error, 1)
	go func() {
		for {
			m, err := st.Recv()
			if err != nil {
				failed <- err
				return
			}
			s.hear(time.Now(), m)
		}
	}()
	s.mu.Lock()
	s.streams = append(s.streams, time.Now())
	s.mu.Unlock()
	for {
		s.mu.Lock()
		spec, news := s.spec, s.news
		s.mu.Unlock()
		if spec != nil {
			now := time.Now()
			if err := st.Send(spec); err != nil {
				return err
			}
			s.mu.Lock()
			s.sent = now
			s.mu.Unlock()
		}
		select {
		case <-news:
		case err := <-failed:
			return err
		}
	}
}

func (s *script) hear(now time.Time, m *healthv3.HealthCheckRequestOrEndpointHealthResponse) {
	r := report{at: now, empty: m.GetRequestType() == nil, health: map[int]told{}}
	for _, c := range m.GetEndpointHealthResponse().GetClusterEndpointsHealth() {
		for _, l := range c.GetLocalityEndpointsHealth() {
			for _, e := range l.GetEndpointsHealth() {
				port := int(e.GetEndpoint().GetAddress().GetSocketAddress().GetPortValue())
				code := e.GetHealthMetadata().GetFields()["http_status_code"].GetNumberValue()
				r.health[port] = told{e.GetHealthStatus().String(), int(code)}
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := m.GetHealthCheckRequest(); h != nil {
		s.hellos = append(s.hellos, h)
		return
	}
	s.reports = append(s.reports, r)
}

// say sends a specifier, now and to whoever connects, and returns when it has gone out.
func (s *script) say(spec *healthv3.HealthCheckSpecifier) time.Time {
	s.t.Helper()
	before := time.Now()
	s.mu.Lock()
	s.spec = spec
	close(s.news)
	s.news = make(chan struct{})
	s.mu.Unlock()
	var at time.Time
	testenv.Eventually(s.t, patience, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if at = s.sent; at.Before(before) {
			return fmt.Errorf("no Envoy takes the specifier")
		}
		return nil
	})
	return at
}

// since returns the reports that came after a time.
func (s *script) since(at time.Time) []report {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.reports {
		if s.reports[i].at.After(at) {
			return append([]report(nil), s.reports[i:]...)
		}
	}
	return nil
}

// await waits for a report after a time that pleases, and returns all up to it.
func (s *script) await(at time.Time, what string, pleases func(report) bool) []report {
	s.t.Helper()
	var list []report
	testenv.Eventually(s.t, patience, func() error {
		all := s.since(at)
		for i, r := range all {
			if pleases(r) {
				list = all[:i+1]
				return nil
			}
		}
		return fmt.Errorf("no report says %s; of %d the last is %+v", what, len(all), all[max(0, len(all)-1):])
	})
	return list
}

// says is what a report of a port is to be.
func says(port int, want told) func(report) bool {
	return func(r report) bool { return r.health[port] == want }
}

// composed is a specifier as a checker would get it.
func composed(t *testing.T, every time.Duration, duties ...hds.Duty) *healthv3.HealthCheckSpecifier {
	t.Helper()
	can := hds.Capability{HTTP: true, TCP: true, GRPC: true, Redis: true, TLS: true}
	spec, refused := hds.Compose(can, every, duties)
	if len(refused) > 0 {
		t.Fatal(refused)
	}
	m, err := spec.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return m
}
