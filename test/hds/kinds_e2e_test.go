//go:build e2e

package hds_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// kind is a service with one endpoint, and what is to be known of it.
type kind struct {
	port int
	meta []string
	// health is what others are told, vote what each checker says, and reason why.
	health, vote, reason string
}

const (
	serving    = grpc_health_v1.HealthCheckResponse_SERVING
	notServing = grpc_health_v1.HealthCheckResponse_NOT_SERVING
	refusal    = "refused, or not answered as it should"
)

// kinds are the backends of a test, of every kind.
type kinds struct {
	t         *testing.T
	all       map[string]*kind
	well, ill *web
	slow      *web
	states    *health.Server
}

// startKinds starts them. What is well may take its time, as on a busy machine; what is not may not.
func startKinds(t *testing.T) *kinds {
	k := &kinds{
		t: t, well: startWeb(t, 200), ill: startWeb(t, 503), slow: startWeb(t, 200),
	}
	k.slow.after = 700 * time.Millisecond
	rpc, states := startRPC(t, serving)
	k.states = states
	resting, _ := startRPC(t, notServing)
	hanging, secure := startWeb(t, 0), startSecureWeb(t)
	closed, mute := testenv.FreePort(t), startLine(t, "")
	patient := func(meta ...string) []string { return probe("2s", meta...) }
	soon := func(meta ...string) []string { return probe("300ms", meta...) }
	up := func(port int, meta []string, reason string) *kind { return &kind{port, meta, "HEALTHY", "up", reason} }
	down := func(port int, meta []string, vote, reason string) *kind {
		return &kind{port, meta, "UNHEALTHY", vote, reason}
	}
	const late, ok = "no answer in time", "answered with status 200"
	k.all = map[string]*kind{
		"well":       up(k.well.port, patient("hds-protocol", "http", "hds-path", "/"), ok),
		"slow":       up(k.slow.port, probe("10s", "hds-protocol", "http"), ok),
		"odd":        up(k.ill.port, patient("hds-protocol", "http", "hds-expected-statuses", "500-599"), "answered with status 503"),
		"secure":     up(secure.port, patient("hds-protocol", "http", "hds-tls", "true"), ok),
		"handshake":  up(secure.port, patient("hds-protocol", "tcp", "hds-tls", "true"), ""),
		"rpc":        up(rpc, patient("hds-protocol", "grpc"), ""),
		"plain":      up(testenv.StartTCPBackend(t, "v1").Port, patient("hds-protocol", "tcp"), ""),
		"connects":   up(hanging.port, patient("hds-protocol", "tcp"), ""),
		"redis":      up(startLine(t, "+PONG\r\n"), patient("hds-protocol", "redis"), ""),
		"elsewhere":  up(closed, patient("hds-protocol", "http", "hds-port", fmt.Sprint(k.well.port)), ok),
		"ill":        down(k.ill.port, patient("hds-protocol", "http"), "down", "answered with status 503"),
		"hanging":    down(hanging.port, soon("hds-protocol", "http"), "timeout", late),
		"mute":       down(mute, soon("hds-protocol", "grpc"), "timeout", late),
		"mute-redis": down(mute, soon("hds-protocol", "redis"), "timeout", late),
		"closed":     down(closed, soon("hds-protocol", "tcp"), "down", refusal),
		"shut":       down(closed, soon("hds-protocol", "http"), "down", refusal),
		"gone":       down(closed, soon("hds-protocol", "grpc"), "down", refusal),
		"resting":    down(resting, soon("hds-protocol", "grpc"), "down", refusal),
		"in-clear":   down(k.well.port, soon("hds-protocol", "http", "hds-tls", "true"), "down", refusal),
	}
	return k
}

func (k *kinds) names() []string {
	var names []string
	for name := range k.all {
		names = append(names, name)
	}
	return names
}

// agreed reports whether an Envoy that follows has it all as it is to be.
func (k *kinds) agreed(envoy *testenv.Envoy) error {
	got := envoy.Clusters()
	for name, want := range k.all {
		c := got[setOf(name)]
		if len(c.Hosts) != 1 || c.Hosts[0].Health.EDS != want.health {
			return fmt.Errorf("%s is %+v, want %s", name, c.Hosts, want.health)
		}
	}
	return nil
}

// explained reports whether of each endpoint three say the same, and why.
func (k *kinds) explained(f *fleet) error {
	for name, want := range k.all {
		e, err := f.endpoint(name, want.port)
		if err != nil {
			return err
		}
		verdict := map[string]string{"HEALTHY": "up", "UNHEALTHY": "down"}[want.health]
		if e.Verdict != verdict || len(e.Votes) != 3 {
			return fmt.Errorf("%s: %+v, want three votes, and the verdict %s", name, e, verdict)
		}
		for _, v := range e.Votes {
			if v.Vote != want.vote || v.Reason != want.reason {
				return fmt.Errorf("%s: %+v, want %s because %q", name, v, want.vote, want.reason)
			}
		}
	}
	return nil
}

// TestFourEnvoysAgreeOnEveryKindOfEndpoint has backends of all kinds probed, and has them change, while a fifth
// Envoy follows.
func TestFourEnvoysAgreeOnEveryKindOfEndpoint(t *testing.T) {
	t.Parallel()
	f := startFleet(t, "--hds-report-interval", "100ms")
	k := startKinds(t)
	args := []string{"--service", "web"}
	for name, s := range k.all {
		// Each is a service of its own: no change of one freezes another.
		f.write(name+".hcl", instance(name, name+"-1", s.port, s.meta...))
		args = append(args, "--upstream", fmt.Sprintf("%s:%d", name, testenv.FreePort(t)))
	}
	var checkers []*testenv.Envoy
	for i := range 4 {
		checkers = append(checkers, f.checker(fmt.Sprintf("checker-%d", i)))
	}
	f.checkers(4)
	seen, fifth := f.watch(k.names()...), f.envoy(args...)
	testenv.Eventually(t, patience, func() error { return k.agreed(fifth) })
	testenv.Eventually(t, patience, func() error { return k.explained(f) })

	k.change()
	testenv.Eventually(t, patience, func() error { return k.agreed(fifth) })
	testenv.Eventually(t, patience, func() error { return k.explained(f) })
	k.told(f)
	// An endpoint that needs seven reports to answer at all was never down.
	if err := seen.only(k.slow.port, "HEALTHY"); err != nil {
		t.Error(err)
	}
	for i, c := range checkers {
		stats := c.Stats()
		if stats["hds_delegate.errors"] != 0 || stats["hds_delegate.requests"] == 0 || stats["hds_delegate.requests"] != stats["hds_delegate.updates"] {
			t.Errorf("of %d specifiers checker %d refused %d, and %d said something new",
				stats["hds_delegate.requests"], i, stats["hds_delegate.errors"], stats["hds_delegate.updates"])
		}
	}
}

// change has backends change, in both directions.
func (k *kinds) change() {
	k.well.status.Store(503)
	k.ill.status.Store(200)
	k.states.SetServingStatus("", notServing)
	for name, want := range map[string]kind{
		"well":      {health: "UNHEALTHY", vote: "down", reason: "answered with status 503"},
		"odd":       {health: "UNHEALTHY", vote: "down", reason: "answered with status 200"},
		"rpc":       {health: "UNHEALTHY", vote: "down", reason: refusal},
		"ill":       {health: "HEALTHY", vote: "up", reason: "answered with status 200"},
		"elsewhere": {health: "UNHEALTHY", vote: "down", reason: "answered with status 503"},
	} {
		s := k.all[name]
		s.health, s.vote, s.reason = want.health, want.vote, want.reason
	}
}

// told looks at what the command line tells of all this.
func (k *kinds) told(f *fleet) {
	k.t.Helper()
	r := testenv.Run(k.t, nil, "health", "--admin-addr", f.catenary.AdminAddr)
	if r.Code != 1 || strings.Count(r.Stdout, "node:checker-") != 3*len(k.all) || !strings.Contains(r.Stdout, "no answer in time") {
		k.t.Errorf("health: exit %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	r = testenv.Run(k.t, nil, "checkers", "--admin-addr", f.catenary.AdminAddr)
	if r.Code != 0 || strings.Count(r.Stdout, "working") != 4 || strings.Count(r.Stdout, "1.40.0") != 4 {
		k.t.Errorf("checkers: exit %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
}

// TestAnOlderEnvoyIsNotToldWhatEndsIt has an Envoy beside it that does what the older one cannot.
func TestAnOlderEnvoyIsNotToldWhatEndsIt(t *testing.T) {
	t.Parallel()
	f := startFleet(t, "--hds-report-interval", "100ms")
	b := startWeb(t, 200)
	rpc, _ := startRPC(t, serving)
	f.write("api.hcl", instance("api", "api-1", b.port, probe("5s", "hds-protocol", "http")...))
	f.write("rpc.hcl", instance("rpc", "rpc-1", rpc, probe("5s", "hds-protocol", "grpc")...))
	health := f.follower("api")
	f.follower("rpc")
	old := testenv.StartEnvoy(t, f.bootstrap("--service", "checker", "--proxy-id", "old", "--hds"), testenv.WithEnvoyVersion(testenv.OldestEnvoy))
	if got := f.voters("api", b.port, 1); got[0] != "node:old" {
		t.Errorf("%v votes", got)
	}
	if e, err := f.endpoint("rpc", rpc); err != nil || len(e.Votes) != 0 || e.Verdict != "unknown" {
		t.Errorf("what the older Envoy must not be told: %+v %v", e, err)
	}
	f.checker("new")
	f.voters("api", b.port, 2)
	if got := f.voters("rpc", rpc, 1); got[0] != "node:new" {
		t.Errorf("%v votes", got)
	}
	sees(t, health, b.port, "HEALTHY")
	if n := old.Stats()["hds_delegate.errors"]; n != 0 {
		t.Errorf("the older Envoy refused %d specifiers", n)
	}
}
