package hds_test

import (
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// web is an HTTP backend that answers with the status it is told to; 0 is never.
type web struct {
	port   int
	status atomic.Int64
	probes atomic.Int64
}

func startWeb(t *testing.T, status int, secure bool) *web {
	t.Helper()
	b := &web{}
	b.status.Store(int64(status))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.probes.Add(1)
		code := int(b.status.Load())
		if code == 0 {
			<-r.Context().Done() // the prober gives up
			return
		}
		w.WriteHeader(code)
	}))
	if secure {
		server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	b.port = server.Listener.Addr().(*net.TCPAddr).Port
	return b
}

// startRPC serves gRPC health, and returns its port and how to change it.
func startRPC(t *testing.T) (int, *health.Server) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, states := grpc.NewServer(), health.NewServer()
	grpc_health_v1.RegisterHealthServer(server, states)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().(*net.TCPAddr).Port, states
}

// TestFourEnvoysAgreeOnEveryKindOfEndpoint has backends of all kinds probed, has them change, kills a checker and
// restarts the server, while a fifth Envoy follows.
func TestFourEnvoysAgreeOnEveryKindOfEndpoint(t *testing.T) {
	f := startFleet(t)
	well, ill, hanging, secure := startWeb(t, 200, false), startWeb(t, 503, false), startWeb(t, 0, false), startWeb(t, 200, true)
	rpc, states := startRPC(t)
	plain := testenv.StartTCPBackend(t, "v1")
	closed := testenv.FreePort(t)
	// Each is a service of its own: no change of one freezes another.
	services := map[string]struct {
		port int
		meta []string
		want string
	}{
		"well":    {well.port, fast("hds-protocol", "http", "hds-path", "/"), "HEALTHY"},
		"ill":     {ill.port, fast("hds-protocol", "http"), "UNHEALTHY"},
		"odd":     {ill.port, fast("hds-protocol", "http", "hds-expected-statuses", "503"), "HEALTHY"},
		"hanging": {hanging.port, fast("hds-protocol", "http"), "UNHEALTHY"},
		"secure":  {secure.port, fast("hds-protocol", "http", "hds-tls", "true"), "HEALTHY"},
		"rpc":     {rpc, fast("hds-protocol", "grpc"), "HEALTHY"},
		"plain":   {plain.Port, fast("hds-protocol", "tcp"), "HEALTHY"},
		"closed":  {closed, fast("hds-protocol", "tcp"), "UNHEALTHY"},
	}
	args := []string{"--service", "web"}
	for name, s := range services {
		f.write(name+".hcl", instance(name, name+"-1", s.port, s.meta...))
		args = append(args, "--upstream", fmt.Sprintf("%s:%d", name, testenv.FreePort(t)))
	}
	checkers := make([]*testenv.Envoy, 0, 4)
	for i := range 4 {
		checkers = append(checkers, f.checker(fmt.Sprintf("checker-%d", i)))
	}
	f.checkers(4)
	fifth := f.envoy(args...)
	all := func() error {
		got := fifth.Clusters()
		for name, s := range services {
			c := got[name+".default.dc1.internal.catenary.local"]
			if len(c.Hosts) != 1 || c.Hosts[0].Health.EDS != s.want {
				return fmt.Errorf("%s is %+v, want %s", name, c.Hosts, s.want)
			}
		}
		return nil
	}
	testenv.Eventually(t, patience, all)
	expect := func(name, want string) {
		s := services[name]
		s.want = want
		services[name] = s
	}

	// What changes is followed, in both directions.
	well.status.Store(503)
	ill.status.Store(200)
	states.SetServingStatus("", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	expect("well", "UNHEALTHY")
	expect("ill", "HEALTHY")
	expect("odd", "UNHEALTHY")
	expect("rpc", "UNHEALTHY")
	testenv.Eventually(t, patience, all)

	// Three probe each endpoint, and no more, however many checkers there are.
	before, since := plain.Count(), time.Now()
	testenv.Throughout(t, 3*time.Second, all)
	per := float64(plain.Count()-before) / (float64(time.Since(since)) / float64(100*time.Millisecond))
	t.Logf("%.2f probes for each endpoint and interval", per)
	if per < 1.5 || per > 3.3 { // a busy machine probes less often
		t.Errorf("%.2f probes for each endpoint and interval, want about 3", per)
	}

	// A killed checker takes nothing down.
	checkers[0].Stop()
	f.checkers(3)
	testenv.Throughout(t, 3*time.Second, all)

	// Nor does a restart of the server: what is probed waits for verdicts.
	f.catenary.Restart()
	testenv.Throughout(t, 2*time.Second, all)
	f.checkers(3)
	testenv.Eventually(t, patience, all)
}

func TestABackendThatGoesIsSeenSoon(t *testing.T) {
	f := startFleet(t, "--hds-report-interval", "500ms")
	const rounds = 7
	var took []time.Duration
	for i := range 3 {
		f.checker(fmt.Sprintf("checker-%d", i))
	}
	f.checkers(3)
	for i := range rounds {
		name := fmt.Sprintf("api%d", i)
		b := testenv.StartTCPBackend(t, "v1")
		f.write(name+".hcl", instance(name, name+"-1", b.Port, "hds-protocol", "tcp", "hds-interval", "1s"))
		port := b.Port
		health := f.follower(name)
		sees(t, health, port, "HEALTHY")
		f.up(name)
		// It goes at any time between two probes, and not just after the first.
		testenv.Throughout(t, time.Duration(rand.Int64N(int64(time.Second))), func() error {
			if got := health(); got[port] != "HEALTHY" {
				return fmt.Errorf("%v", got)
			}
			return nil
		})
		b.Stop()
		gone := time.Now()
		sees(t, health, port, "UNHEALTHY")
		took = append(took, time.Since(gone))
	}
	slices.Sort(took)
	t.Logf("from refusing to UNHEALTHY in an Envoy: %v in the middle, %v at most (probes each 1s, reports each 500ms)", took[rounds/2], took[rounds-1])
	if took[rounds/2] > 2*time.Second {
		t.Errorf("in the middle it took %v", took[rounds/2])
	}
}
