// Package intentions_test shows with real Envoys how open connections come to their end when an intention is
// tightened, and what does not end them: docs/design/intentions.md draws its conclusions.
package intentions_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/catenary-mesh/catenary/internal/evict"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	// patience is how long a change may take to arrive on a busy machine.
	patience = 10 * time.Second
	// limit is how long what was forbidden may go on.
	limit = 5 * time.Second
)

// rig is an Envoy, its control plane, and what it forwards to.
type rig struct {
	*control
	ca    *authority
	envoy *testenv.Envoy
	tcp   *testenv.Backend
	web   int // the port of what serves HTTP
}

type behaviours map[string]func(*testing.T, *rig)

func TestTheWayThatIsChosen(t *testing.T) {
	holdEnvoysTo(t, behaviours{
		"tightening-ends-what-it-forbids-and-nothing-else": tighteningEndsWhatItForbids,
		"fewer-rights-end-long-requests":                   fewerRightsEndLongRequests,
		"a-late-handshake-is-found":                        aLateHandshakeIsFound,
		"many-rules-in-a-row-are-taken":                    manyRulesInARowAreTaken,
		"without-rules-nobody-enters":                      withoutRulesNobodyEnters,
		"after-the-wait-for-rules-nobody-enters":           afterTheWaitForRulesNobodyEnters,
		"who-is-forbidden-and-says-nothing-is-ended":       whoIsForbiddenAndSaysNothingIsEnded,
	})
}

// holdEnvoysTo runs behaviours with Envoys at both ends of the range.
func holdEnvoysTo(t *testing.T, all behaviours) {
	bootstrap := consulsBootstrap(t)
	for _, v := range []testenv.EnvoyVersion{testenv.NewestEnvoy, testenv.OldestEnvoy} {
		t.Run(string(v), func(t *testing.T) {
			for name, run := range all {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					c := startControl(t)
					run(t, &rig{
						control: c, ca: newAuthority(t), tcp: testenv.StartTCPBackend(t, "v1"), web: startWeb(t),
						envoy: testenv.StartEnvoy(t, bootstrap(c.addr), testenv.WithEnvoyVersion(v), testenv.WithDefaultDrain(), testenv.WithWorkers(2)),
					})
				})
			}
		})
	}
}

// consulsBootstrap returns what Consul has its users start an Envoy with, for a control plane at an address:
// the command line has nothing but its defaults.
func consulsBootstrap(t *testing.T) func(addr string) []byte {
	consul := testenv.StartConsul(t)
	registration := filepath.Join(t.TempDir(), "server.hcl")
	text := fmt.Sprintf(`services { name = "server", port = %d, connect { sidecar_service {} } }`, testenv.FreePort(t))
	if err := os.WriteFile(registration, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	consul.CLI("", "services", "register", registration)
	return func(addr string) []byte {
		return []byte(consul.CLI("", "connect", "envoy", "-sidecar-for", "server", "-bootstrap",
			"-ignore-envoy-compatibility", "-admin-bind", "127.0.0.1:0", "-grpc-addr", addr))
	}
}

// door is a listener of a rig with a cluster behind it.
type door struct {
	*rig
	name string
	port int
}

func (r *rig) door(name string) *door { return &door{rig: r, name: name, port: testenv.FreePort(r.t)} }

// l4, l7 and rules are the names of what is discovered for the door.
func (d *door) l4() string    { return d.name + ".l4" }
func (d *door) l7() string    { return d.name + ".l7" }
func (d *door) rules() string { return d.name + ".rules" }

func (d *door) cluster(more object) { d.set(clusterType, d.name, cluster(d.name, d.tcp.Port, more)) }

func (d *door) listen(more object, chains ...any) {
	d.set(listenerType, d.name, with(listener(d.name, d.port, chains...), more))
}

// openTCP opens a door for TCP as docs/design/intentions.md has it.
func (d *door) openTCP(services ...string) {
	d.cluster(nil)
	d.permit(services...)
	d.listen(nil, chain(downstreamTLS(d.ca), discovered(d.l4(), networkRBAC), tracker(networkWasm, d.name), tcpProxy(d.name)),
		unreached(d.rules()))
}

// openHTTP opens a door for HTTP as docs/design/intentions.md has it.
func (d *door) openHTTP(services ...string) {
	d.set(clusterType, d.name, cluster(d.name, d.web, nil))
	d.permit(services...)
	d.listen(nil, chain(downstreamTLS(d.ca, "h2", "http/1.1"),
		hcm(d.name, discovered(d.l7(), httpRBAC), tracker(httpWasm, d.name))), unreached(d.rules()))
}

// permit sends the intentions that permit services, and nobody else.
func (d *door) permit(services ...string) {
	d.t.Helper()
	d.judge(keep(services...))
	d.set(extensionType, d.l4(), layer4(d.l4(), allow(services...)))
	d.set(extensionType, d.l7(), layer7(d.l7(), allow(services...)))
}

// permitPaths sends the intentions that permit everybody what begins with some paths. Their last letters
// are the names of the rights.
func (d *door) permitPaths(prefixes ...string) {
	d.t.Helper()
	all := evict.Rule{Pattern: "*", Keep: true}
	for _, p := range prefixes {
		all.Rights = append(all.Rights, evict.Right{Name: p[len(p)-1:]})
	}
	d.judge([]evict.Rule{all})
	d.set(extensionType, d.l7(), layer7(d.l7(), paths(prefixes...)))
}

// judge sends the rules for what is open.
func (d *door) judge(rules []evict.Rule) {
	d.t.Helper()
	text, err := evict.Text(rules)
	if err != nil {
		d.t.Fatal(err)
	}
	d.set(extensionType, d.rules(), extension(d.rules(), networkWasm, plugin(d.name, d.rules(), text)))
}

func (d *door) addr() string { return net.JoinHostPort("127.0.0.1", fmt.Sprint(d.port)) }

// accepted fails the test when Envoy has refused something.
func (r *rig) accepted(t *testing.T) {
	t.Helper()
	if refused := r.refusals(); len(refused) > 0 {
		t.Errorf("Envoy refuses %q", refused)
	}
}

// undrained fails the test when a listener or a chain of one is about to end.
func (r *rig) undrained(t *testing.T) {
	t.Helper()
	stats := r.envoy.Stats()
	for _, name := range []string{"listener_manager.total_listeners_draining", "listener_manager.total_filter_chains_draining"} {
		if n, known := stats[name]; n != 0 || !known {
			t.Errorf("%s is %d; known: %t", name, n, known)
		}
	}
	if updates := stats["listener_manager.listener_modified"] + stats["listener_manager.listener_in_place_updated"]; updates != 0 {
		t.Errorf("listeners were changed %d times", updates)
	}
}

// has returns an error unless Envoy has a number of connections from outside at the door.
func (d *door) has(n int64) error {
	name := fmt.Sprintf("listener.127.0.0.1_%d.downstream_cx_active", d.port)
	if got := d.envoy.Stats()[name]; got != n {
		return fmt.Errorf("%s is %d", name, got)
	}
	return nil
}
