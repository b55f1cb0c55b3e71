package sanitizer

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/catenary-mesh/catenary/hds"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// expected is a probe of a backend's port, and what a checker says of it.
type expected struct {
	port  int
	probe hds.Probe
	want  hds.Status
}

func TestEveryProbeTellsWhatIsWellFromWhatIsNot(t *testing.T) {
	t.Parallel()
	for _, version := range []testenv.EnvoyVersion{testenv.NewestEnvoy, testenv.OldestEnvoy} {
		t.Run(string(version), func(t *testing.T) {
			t.Parallel()
			tell(t, startChecker(t, version))
		})
	}
}

func tell(t *testing.T, c *checker) {
	t.Helper()
	can := c.greet(t).Can
	cases := casesOf(t)
	var duties []hds.Duty
	want := map[string]hds.Status{}
	for name, e := range cases {
		if !can.Can(e.probe) {
			continue
		}
		e.probe.Interval, e.probe.Timeout = 100*time.Millisecond, 300*time.Millisecond
		duties = append(duties, hds.Duty{Endpoint: hds.Endpoint{Key: hds.Key{Set: name, Address: "127.0.0.1", Port: uint32(e.port)}}, Probe: e.probe})
		want[name] = e.want
	}
	spec, refused := hds.Compose(can, 50*time.Millisecond, duties)
	if len(refused) > 0 {
		t.Fatal(refused)
	}
	reports := hds.NewReports(time.Now(), 50*time.Millisecond)
	c.tell(t, spec)
	reports.Told(time.Now(), spec)
	got := map[string]hds.Status{}
	testenv.Eventually(t, 30*time.Second, func() error {
		seen, err := reports.Receive(time.Now(), c.hear(t, func() string { return "with every probe" }))
		for _, o := range seen {
			got[o.Set] = o.Status
			if o.Status == hds.StatusUnhealthy && want[o.Set] == hds.StatusAnswered {
				got[o.Set] = hds.StatusAnswered // before 1.40 a report does not say with what status
			}
		}
		if err == nil && !maps.Equal(got, want) {
			var wrong []string
			for name := range want {
				if got[name] != want[name] {
					wrong = append(wrong, fmt.Sprintf("%s is %d, and not %d", name, got[name], want[name]))
				}
			}
			err = fmt.Errorf("%s", strings.Join(wrong, "; "))
		}
		return err
	})
}

func casesOf(t *testing.T) map[string]expected {
	probe := func(p hds.Protocol, change func(*hds.Probe)) hds.Probe {
		probe := hds.DefaultProbe(p)
		change(&probe)
		return probe
	}
	same := func(*hds.Probe) {}
	throughTLS := func(p *hds.Probe) { p.TLS = true }
	web, secure := webPort(t, false), webPort(t, true)
	rpc, secureRPC := rpcPort(t), rpcPort(t, grpc.Creds(credentials.NewServerTLSFromCert(certificate(t))))
	redis, hanging, closed := linePort(t, "+PONG\r\n"), linePort(t, ""), testenv.FreePort(t)
	return map[string]expected{
		"http":            {web, probe(hds.HTTP, func(p *hds.Probe) { p.Path = "/well" }), hds.StatusHealthy},
		"http-503":        {web, probe(hds.HTTP, func(p *hds.Probe) { p.Path = "/ill" }), hds.StatusAnswered},
		"http-503-wanted": {web, probe(hds.HTTP, func(p *hds.Probe) { p.Path, p.Statuses = "/ill", "200,500-599" }), hds.StatusHealthy},
		"http-own-host":   {web, probe(hds.HTTP, func(p *hds.Probe) { p.Path = fmt.Sprintf("/host/127.0.0.1:%d", web) }), hds.StatusHealthy},
		"http-host":       {web, probe(hds.HTTP, func(p *hds.Probe) { p.Path, p.Host = "/host/api.example", "api.example" }), hds.StatusHealthy},
		"http-other-host": {web, probe(hds.HTTP, func(p *hds.Probe) { p.Path, p.Host = "/host/api.example", "web.example" }), hds.StatusAnswered},
		"http-refused":    {closed, probe(hds.HTTP, same), hds.StatusUnhealthy},
		"http-hanging":    {hanging, probe(hds.HTTP, same), hds.StatusTimeout},
		"http-port":       {closed, probe(hds.HTTP, func(p *hds.Probe) { p.Path, p.Port = "/well", uint32(web) }), hds.StatusHealthy},
		"https":           {secure, probe(hds.HTTP, func(p *hds.Probe) { p.Path, p.TLS = "/well", true }), hds.StatusHealthy},
		"https-in-clear":  {web, probe(hds.HTTP, func(p *hds.Probe) { p.Path, p.TLS = "/well", true }), hds.StatusUnhealthy},
		"tcp":             {web, probe(hds.TCP, same), hds.StatusHealthy},
		"tcp-refused":     {closed, probe(hds.TCP, same), hds.StatusUnhealthy},
		"tcp-tls":         {secure, probe(hds.TCP, throughTLS), hds.StatusHealthy},
		"grpc":            {rpc, probe(hds.GRPC, same), hds.StatusHealthy},
		"grpc-tls":        {secureRPC, probe(hds.GRPC, throughTLS), hds.StatusHealthy},
		"grpc-service":    {rpc, probe(hds.GRPC, func(p *hds.Probe) { p.Path = "ill" }), hds.StatusUnhealthy},
		"grpc-refused":    {closed, probe(hds.GRPC, same), hds.StatusUnhealthy},
		"redis":           {redis, probe(hds.Redis, same), hds.StatusHealthy},
		"redis-hanging":   {hanging, probe(hds.Redis, same), hds.StatusTimeout},
	}
}

// webPort serves /well, /ill, and /host/NAME for those who call it by that name.
func webPort(t *testing.T, secure bool) int {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, asksHost := strings.CutPrefix(r.URL.Path, "/host/")
		if r.URL.Path != "/well" && (!asksHost || host != r.Host) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // a TLS port is spoken to in clear, and the other way
	if secure {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return server.Listener.Addr().(*net.TCPAddr).Port
}

// rpcPort serves gRPC health: well, and the service ill is not.
func rpcPort(t *testing.T, opts ...grpc.ServerOption) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(opts...)
	states := health.NewServer()
	states.SetServingStatus("ill", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	grpc_health_v1.RegisterHealthServer(server, states)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().(*net.TCPAddr).Port
}

// certificate is one that nobody vouches for.
func certificate(t *testing.T) *tls.Certificate {
	t.Helper()
	a := testenv.NewAuthority(t)
	certFile, keyFile := a.Issue("server", "127.0.0.1")
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	return &pair
}

// linePort answers whatever comes with a text, or never.
func linePort(t *testing.T, answer string) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			context.AfterFunc(ctx, func() { conn.Close() })
			go func() {
				for buffer := bufio.NewReader(conn); ; {
					if _, err := buffer.ReadByte(); err != nil {
						return
					}
					// One answer for each request, however long it is.
					_, _ = buffer.Discard(buffer.Buffered())
					if _, err := io.WriteString(conn, answer); err != nil {
						return
					}
				}
			}()
		}
	}()
	t.Cleanup(func() {
		cancel()
		listener.Close()
		<-done
	})
	return listener.Addr().(*net.TCPAddr).Port
}
