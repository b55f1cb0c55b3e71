package integration_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
)

// alarmTime is within what a loss of rights must be told.
const alarmTime = 5 * time.Second

// tokenFile is a file with catenary's token.
type tokenFile struct {
	t    *testing.T
	name string
}

func newTokenFile(t *testing.T, token string) *tokenFile {
	f := &tokenFile{t: t, name: filepath.Join(t.TempDir(), "token")}
	f.write(token)
	return f
}

// write replaces the token; catenary has to be told.
func (f *tokenFile) write(token string) {
	f.t.Helper()
	if err := os.WriteFile(f.name, []byte(token), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// sent counts everything that clients were sent.
func sent(c *testenv.Catenary) float64 {
	sum := 0.0
	for name, v := range c.Metrics() {
		if strings.HasPrefix(name, "catenary_xds_responses_total") {
			sum += v
		}
	}
	return sum
}

// readyz returns what the readiness says, which must be that catenary is ready.
func readyz(c *testenv.Catenary) (string, error) {
	code, body, err := testenv.Get("http://"+c.AdminAddr+"/readyz", nil)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("not ready: %d %s", code, body)
	}
	return strings.TrimSpace(body), err
}

// alarmed waits until the loss of rights is told: in the log, as a metric, and beside the readiness.
func alarmed(t *testing.T, c *testenv.Catenary, warnings int) {
	t.Helper()
	begin := time.Now()
	testenv.Eventually(t, patience, func() error {
		said, err := readyz(c)
		n := c.Metrics()[`catenary_problems{origin="source"}`]
		switch {
		case err != nil:
			return err
		case !strings.HasPrefix(said, "ready, but ") || !strings.Contains(said, "token"):
			return fmt.Errorf("the readiness says %q", said)
		case n == 0:
			return errors.New("no problem is counted")
		case strings.Count(c.Log(), "[WARN]") == warnings:
			return errors.New("the log says nothing")
		}
		return nil
	})
	took := time.Since(begin)
	t.Logf("told after %s", took.Round(time.Millisecond))
	if took > alarmTime {
		t.Errorf("it took %s", took)
	}
}

// calm waits until nothing is wrong any more.
func calm(t *testing.T, c *testenv.Catenary) {
	t.Helper()
	testenv.Eventually(t, 2*patience, func() error {
		said, err := readyz(c)
		if n := c.Metrics()[`catenary_problems{origin="source"}`]; err == nil && (n > 0 || said != "ready") {
			err = fmt.Errorf("%v problems are counted, and the readiness says %q", n, said)
		}
		return err
	})
}

// guardedShop is a fleet on a Consul that denies by default: a splitter of the service split, which has no
// instances, sends everything to v2 of api. Without the splitter or what it leads to nothing is answered,
// and without its subset v1 answers too.
func guardedShop(t *testing.T, args ...string) (*fleet, *tokenFile) {
	consul := testenv.StartConsul(t, testenv.WithACL())
	file := newTokenFile(t, consul.NewToken(readAll))
	args = append([]string{"--consul-addr", consul.HTTPAddr()}, args...)
	f := &fleet{t: t, consul: consul}
	f.catenary = testenv.StartCatenary(t, []string{"CONSUL_HTTP_TOKEN_FILE=" + file.name}, args...)
	f.token = consul.NewToken(`service "web" { policy = "write" } service_prefix "" { policy = "read" }`)
	testenv.Eventually(t, patience, f.catenary.Ready)
	f.register("api", testenv.StartBackend(t, "v1"))
	f.register("api", testenv.StartBackend(t, "v2"))
	f.http("api", "split")
	f.subsets("api", "v1", "v2")
	f.splitTo(0, 100)
	return f, file
}

// splitTo has the splitter send to v1 and v2 of api.
func (f *fleet) splitTo(v1, v2 int) {
	f.consul.WriteEntry(fmt.Sprintf(`
Kind = "service-splitter"
Name = "split"
Splits = [
  { Weight = %d, Service = "api", ServiceSubset = "v1" },
  { Weight = %d, Service = "api", ServiceSubset = "v2" },
]
`, v1, v2))
}

// Whatever is wrong with catenary's token while it runs takes nothing away from a proxy and sends it
// nothing, is told at once, and is over without a restart.
func TestATokenThatGoesWrongIsToldAndHarmless(t *testing.T) {
	t.Parallel()
	f, file := guardedShop(t)
	good, err := os.ReadFile(file.name)
	if err != nil {
		t.Fatal(err)
	}
	token, consul, c := string(good), f.consul, f.catenary
	var ports []int
	for _, sotw := range []bool{false, true} {
		split, up := port(t, "split")
		ports = append(ports, split)
		f.sotw = sotw
		f.envoy("web", up).WaitReady()
		answers(t, split, "v2")
	}
	give := func(token string) func() {
		return func() {
			file.write(token)
			c.Hangup()
		}
	}
	cut := func(rules string) func() { return func() { consul.SetPolicy(token, rules) } }
	second := consul.NewToken(readAll)
	for _, fault := range []struct {
		name         string
		break_, mend func()
	}{
		{"services alone", cut(`service_prefix "" { policy = "read" }`), cut(readAll)},
		{"nodes alone", cut(`node_prefix "" { policy = "read" }`), cut(readAll)},
		{"all but one splitter", cut(readAll + ` service "split" { policy = "deny" }`), cut(readAll)},
		{"no rights", cut(""), cut(readAll)},
		{"a token that is none", give("5a1ad000-0000-4000-8000-000000000001"), give(token)},
		{"the anonymous token", give("anonymous"), give(second)},
		{"a token that is deleted", func() { consul.DeleteToken(second) }, give(token)},
	} {
		t.Run(fault.name, func(t *testing.T) {
			f.quiet()
			requests := []*traffic{startTraffic(t, ports[0]), startTraffic(t, ports[1])}
			before, warnings := sent(c), strings.Count(c.Log(), "[WARN]")
			fault.break_()
			alarmed(t, c, warnings)
			testenv.Throughout(t, time.Second, func() error {
				if n := sent(c) - before; n != 0 {
					return fmt.Errorf("%v responses were sent", n)
				}
				return nil
			})
			fault.mend()
			calm(t, c)
			if n := sent(c) - before; n != 0 {
				t.Errorf("%v responses were sent by the time all was well again", n)
			}
			for _, r := range requests {
				r.only(t, "v2")
			}
			f.splitTo(100, 0) // and what is written is heard of
			answers(t, ports[0], "v1")
			answers(t, ports[1], "v1")
			f.splitTo(0, 100)
			answers(t, ports[0], "v2")
			answers(t, ports[1], "v2")
		})
	}
	if log := c.Log(); strings.Contains(log, token) || strings.Contains(log, second) {
		t.Error("the log holds a token")
	}
}

// An empty token file is no token at all, and so is not taken for one.
func TestAnEmptyTokenFileChangesNothing(t *testing.T) {
	t.Parallel()
	f, file := guardedShop(t)
	split, up := port(t, "split")
	f.envoy("web", up).WaitReady()
	answers(t, split, "v2")
	f.quiet()
	before := sent(f.catenary)
	file.write("")
	f.catenary.Hangup()
	testenv.Eventually(t, patience, func() error {
		if n := strings.Count(f.catenary.Log(), "is empty"); n != 1 {
			return fmt.Errorf("the log says %d times that the file is empty", n)
		}
		return nil
	})
	calm(t, f.catenary)
	f.splitTo(100, 0)
	answers(t, split, "v1")
	if n := sent(f.catenary) - before; n != 1 {
		t.Errorf("%v responses were sent; a splitter is one", n)
	}
}

// A start with a token that is of no use leaves a live proxy what it has, says what is wrong, and goes on
// by itself when there is a token.
func TestAStartWithAWrongTokenTakesNothingAway(t *testing.T) {
	t.Parallel()
	f, file := guardedShop(t)
	good, err := os.ReadFile(file.name)
	if err != nil {
		t.Fatal(err)
	}
	split, up := port(t, "split")
	f.envoy("web", up).WaitReady()
	answers(t, split, "v2")
	for name, token := range map[string]string{
		"a token that is none": "5a1ad000-0000-4000-8000-000000000001",
		"the anonymous token":  "anonymous",
		"no token":             "",
	} {
		t.Run(name, func(t *testing.T) {
			file.write(token)
			f.catenary.Restart()
			requests := startTraffic(t, split)
			begin := time.Now()
			testenv.Eventually(t, patience, func() error {
				switch err := f.catenary.Ready(); {
				case err == nil:
					return errors.New("ready although nothing can be known")
				case !strings.Contains(err.Error(), "token"):
					return err
				}
				if n := f.catenary.Metrics()[`catenary_problems{origin="source"}`]; n == 0 {
					return errors.New("no problem is counted")
				}
				return nil
			})
			if took := time.Since(begin); took > alarmTime {
				t.Errorf("told after %s", took)
			}
			testenv.Throughout(t, time.Second, func() error {
				if f.catenary.Ready() == nil {
					return errors.New("ready although nothing can be known")
				}
				return nil
			})
			file.write(string(good))
			f.catenary.Hangup()
			testenv.Eventually(t, 2*patience, f.catenary.Ready)
			proxy(t, f.catenary, "web-1", xds.StateSynced)
			calm(t, f.catenary)
			requests.only(t, "v2")
		})
	}
}
