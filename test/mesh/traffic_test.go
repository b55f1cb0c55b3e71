package mesh_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"google.golang.org/grpc/codes"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// rate is how many requests a second a mesh carries in each direction under load, of which there are four.
const rate = 50

// load is traffic over kept connections.
type load struct {
	requests, failed atomic.Int64
	first            atomic.Pointer[string] // failure
	stop             context.CancelFunc
	done             sync.WaitGroup
}

// startLoad sends requests along the directions until the test ends or the load is stopped.
func startLoad(t *testing.T, directions ...[2]*member) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{stop: cancel}
	for _, d := range directions {
		transport := &http.Transport{MaxIdleConnsPerHost: 4}
		url := fmt.Sprintf("http://127.0.0.1:%d/", d[0].ports[d[1].name])
		l.done.Go(func() {
			defer transport.CloseIdleConnections()
			tick := time.NewTicker(time.Second / rate)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				l.request(ctx, transport, url, d)
			}
		})
	}
	t.Cleanup(l.end)
	return l
}

func (l *load) end() {
	l.stop()
	l.done.Wait()
}

func (l *load) request(ctx context.Context, transport *http.Transport, url string, d [2]*member) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		l.fail(d, err)
		return
	}
	resp, err := transport.RoundTrip(req)
	if ctx.Err() != nil {
		return
	}
	l.requests.Add(1)
	if err != nil {
		l.fail(d, err)
		return
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if ctx.Err() != nil {
		return
	}
	if err != nil || resp.StatusCode != http.StatusOK || strings.TrimSpace(string(body)) != d[1].name {
		l.fail(d, fmt.Errorf("%d %q %w", resp.StatusCode, body, err))
	}
}

func (l *load) fail(d [2]*member, err error) {
	text := fmt.Sprintf("%s to %s at %s: %v", d[0].name, d[1].name, time.Now().Format("15:04:05.000"), err)
	l.failed.Add(1)
	l.first.CompareAndSwap(nil, &text)
}

// flawless ends the load, which must have had no failure.
func (l *load) flawless(t *testing.T) {
	t.Helper()
	l.end()
	if n := l.failed.Load(); n > 0 {
		t.Errorf("%d of %d requests failed, first %s", n, l.requests.Load(), *l.first.Load())
	}
	t.Logf("%d requests", l.requests.Load())
}

// web are four HTTP services, of which each server serves two, and traffic between all kinds of pairs.
func web(t *testing.T, options ...testenv.ConsulOption) (*mesh, *load) {
	t.Helper()
	m := startMesh(t, options, four("http", "http", "http", "http")...)
	return m, m.traffic()
}

// traffic is what four services that talk already send each other from then on.
func (m *mesh) traffic() *load {
	m.t.Helper()
	m.directions(m.flows)
	a, b, c, d := m.members[0], m.members[1], m.members[2], m.members[3]
	return startLoad(m.t, [2]*member{a, b}, [2]*member{a, c}, [2]*member{d, b}, [2]*member{b, a})
}

// sent is how many resources catenary has sent, by type.
func (m *mesh) sent() map[string]float64 {
	m.t.Helper()
	list := map[string]float64{}
	for name, n := range m.catenary.Metrics() {
		if typ, ok := strings.CutPrefix(name, "catenary_xds_response_resources_total"); ok && n > 0 {
			list[typ] = n
		}
	}
	return list
}

// A while without a server, and how long is looked at what its return brings: agents tell what they know again
// only bit by bit. The same with a minute is TestAMinuteWithoutCatenary and TestAMinuteWithoutConsul.
const (
	while     = 5 * time.Second
	aftermath = time.Second
)

func TestAnAbsenceOfCatenaryFailsNoRequest(t *testing.T) {
	t.Parallel()
	withoutCatenary(t, while)
}

func withoutCatenary(t *testing.T, absence time.Duration) {
	t.Helper()
	m, traffic := web(t)
	m.catenary.Stop()
	testenv.Throughout(t, absence, func() error { return m.members[1].call(m.members[0]) })
	m.catenary.Restart()
	testenv.Eventually(t, time.Minute, func() error { return synced(m.catenary, "a-sidecar-proxy", "b-sidecar-proxy") })
	m.directions(m.flows)
	// The keys are not kept over a restart: of each service a new certificate.
	if got, want := m.sent(), map[string]float64{`{type="secret"}`: 2}; !maps.Equal(got, want) {
		t.Errorf("these were sent again: %v, want only the certificates of two services: %v", got, want)
	}
	traffic.flawless(t)
}

func TestAnAbsenceOfConsulFailsNoRequestAndStillLetsSidecarsStart(t *testing.T) {
	t.Parallel()
	withoutConsul(t, while, aftermath)
}

func withoutConsul(t *testing.T, absence, aftermath time.Duration) {
	t.Helper()
	m, traffic := web(t, testenv.WithDataDir(), testenv.WithACL())
	a, b, c := m.members[0], m.members[1], m.members[2]
	unseen := m.tokenOf("a")
	// Registered before the absence, of a service that has a connected sidecar, started in it.
	second := &member{
		name: "a", protocol: "http", ports: map[string]int{}, public: testenv.FreePort(t), port: a.port,
		token: a.token, status: api.HealthCritical,
	}
	m.register(second, "a-2")
	boot := m.bootstrap(second, "a-2")
	testenv.Eventually(t, patience, func() error {
		for name, c := range b.envoy.Clusters() {
			if strings.HasPrefix(name, "a.") && len(c.Hosts) == 2 {
				return nil
			}
		}
		return errors.New("the second instance is not heard of")
	})
	serial := serials(t, a, b)
	m.consul.Stop()
	second.envoy = testenv.StartEnvoy(t, boot)
	for _, to := range []*member{b, c} { // one of each server
		testenv.Eventually(t, patience, func() error { return second.call(to) })
	}
	testenv.Eventually(t, patience, func() error { return synced(m.catenary, "a-2-sidecar-proxy", "a-sidecar-proxy", "b-sidecar-proxy") })
	if leaf := serials(t, second)[second]; leaf != serial[a] {
		t.Errorf("the second sidecar shows the certificate %s, and the first %s", leaf, serial[a])
	}
	fruitless(t, []pretence{{"a token that was not seen before", m.sidecarOf("a", unseen), codes.Unavailable, "try again"}})
	before := m.sent()
	testenv.Throughout(t, absence, func() error { return second.call(b) })
	m.consul.Restart()
	testenv.Eventually(t, time.Minute, m.catenary.Ready)
	m.directions(m.flows)
	testenv.Throughout(t, aftermath, func() error { return second.call(b) })
	traffic.flawless(t)
	if after := m.sent(); !maps.Equal(after, before) {
		t.Errorf("something was sent again: %v, before %v", after, before)
	}
	if got := serials(t, a, b); !maps.Equal(got, serial) {
		t.Errorf("the certificates are %v, before %v", got, serial)
	}
	// And what changes arrives again.
	m.consul.WriteEntry("Kind = \"service-intentions\"\nName = \"b\"\nSources { Name = \"a\" Action = \"deny\" }")
	m.denied(a, b)
	m.denied(second, b)
}

// synced reports whether catenary has sent the proxies all that they should have.
func synced(c *testenv.Catenary, ids ...string) error {
	var proxies []struct{ ID, State, Reason string }
	if err := c.API("/api/v1/proxies", &proxies); err != nil {
		return err
	}
	for _, id := range ids {
		if !slices.ContainsFunc(proxies, func(p struct{ ID, State, Reason string }) bool { return p.ID == id && p.State == "SYNCED" }) {
			text, _ := json.Marshal(proxies)
			return fmt.Errorf("%s is not synced: %s", id, text)
		}
	}
	return nil
}
