package integration_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
)

func TestWhatIsWrittenToConsulReachesEnvoy(t *testing.T) {
	bothForms(t, func(t *testing.T, sotw bool) {
		f := startFleet(t, sotw)
		v1, v2 := testenv.StartBackend(t, "v1"), testenv.StartBackend(t, "v2")
		f.register("api", v1)
		f.register("api", v2)
		f.http("api")
		f.subsets("api", "v1", "v2")
		f.split("api", 90, 10)
		api, up := port(t, "api")
		f.envoy("web", up).WaitReady()

		got := tally(api, 400)
		if got["v1"] < 320 || got["v1"] > 390 || got["v1"]+got["v2"] != 400 {
			t.Fatalf("90/10 answered %v", got)
		}
		f.split("api", 0, 100)
		answers(t, api, "v2")
		f.consul.SetCheck("api-v2", "critical")
		answers(t, api, "503")
		f.consul.SetCheck("api-v2", "passing")
		answers(t, api, "v2")
		f.consul.DeleteEntry("service-splitter", "api")
		f.consul.Deregister("api-v2")
		answers(t, api, "v1")
		begin := time.Now()
		f.consul.Deregister("api-v1")
		answers(t, api, "503")
		d := time.Since(begin)
		if t.Logf("the deregistration of the last instance took %s", d); d > generous*2*time.Second {
			t.Errorf("it took %s; want 2 s, and no machine takes %d times as long", d, generous)
		}
		proxy(t, f.catenary, "web-1", xds.StateSynced)
	})
}

func TestConsulAwayAtTheStart(t *testing.T) {
	t.Parallel()
	consul := testenv.StartConsul(t)
	consul.Stop()
	c := testenv.StartCatenary(t, consul.Env(), "--consul-addr", consul.HTTPAddr())
	api, up := port(t, "api")
	e := startEnvoy(t, c, false, "web", up)
	if err := c.Ready(); err == nil {
		t.Error("catenary is ready without Consul")
	}
	testenv.Eventually(t, patience, func() error {
		if !strings.Contains(c.Log(), consul.HTTPAddr()) {
			return errors.New("the log does not name the Consul that is away")
		}
		return nil
	})
	stays(t, api, time.Second, "no answer")
	if list, err := proxies(c); err != nil || len(list) > 0 {
		t.Errorf("proxies were taken in while nothing is known: %+v %v", list, err)
	}
	if n := strings.Count(c.Log(), consul.HTTPAddr()); n != 1 {
		t.Errorf("the log names the Consul that is away %d times; say it once:\n%s", n, c.Log())
	}

	consul.Restart()
	f := &fleet{t: t, consul: consul, catenary: c}
	f.register("api", testenv.StartBackend(t, "v1"))
	f.http("api")
	testenv.Eventually(t, 2*patience, c.Ready)
	e.WaitReady()
	answers(t, api, "v1")
}

func TestConsulLostLater(t *testing.T) {
	t.Parallel()
	bothForms(t, func(t *testing.T, sotw bool) {
		f := startFleet(t, sotw)
		f.register("api", testenv.StartBackend(t, "v1"))
		f.http("api")
		api, up := port(t, "api")
		e := f.envoy("web", up)
		e.WaitReady()
		answers(t, api, "v1")
		f.consul.Stop()
		stays(t, api, time.Second, "v1")
		e.Restart() // a new Envoy still gets everything
		e.WaitReady()
		answers(t, api, "v1")
		if err := f.catenary.Ready(); err != nil {
			t.Errorf("what is known is still served, but: %v", err)
		}

		// Consul comes back with nothing, as after a loss of its data: its instances are gone for good.
		f.consul.Restart()
		f.register("api", testenv.StartBackend(t, "v2"))
		answers(t, api, "v2")
	})
}

func TestADatacenterThatIsDownDelaysOnlyItsOwnUpstream(t *testing.T) {
	t.Parallel()
	bothForms(t, func(t *testing.T, sotw bool) {
		f := startFleet(t, sotw)
		f.register("api", testenv.StartBackend(t, "v1"))
		f.http("api", "stock")
		api, up := port(t, "api")
		_, stock := port(t, "stock@dc2")
		begin := time.Now()
		f.envoy("web", up, stock).WaitReady()
		answers(t, api, "v1")
		if d := time.Since(begin); d > patience {
			t.Errorf("the other upstream answered after %s", d)
		}
		p := proxy(t, f.catenary, "web-1", xds.StatePending)
		if len(p.Pending) != 1 || p.Pending[0].Upstream != "stock?dc=dc2" {
			t.Errorf("pending %+v", p.Pending)
		}
		testenv.Eventually(t, patience, func() error {
			list, err := proxies(f.catenary)
			if err == nil && !strings.Contains(list[0].Pending[0].Reason, "dc2") {
				err = fmt.Errorf("the reason is %q", list[0].Pending[0].Reason)
			}
			return err
		})
	})
}

func TestARefusedRouteHarmsNobodyElse(t *testing.T) {
	t.Parallel()
	bothForms(t, func(t *testing.T, sotw bool) {
		f := startFleet(t, sotw)
		f.register("api", testenv.StartBackend(t, "v1"))
		f.register("stock", testenv.StartBackend(t, "s1"))
		f.http("api", "stock")
		api, apiUp := port(t, "api")
		stock, stockUp := port(t, "stock")
		f.envoy("web", apiUp).WaitReady()
		f.envoy("admin", stockUp).WaitReady()
		f.consul.WriteEntry(`
Kind = "service-router"
Name = "api"
Routes = [{ Match { HTTP { PathRegex = "/(" } } }]
`)
		p := proxy(t, f.catenary, "web-1", xds.StateNacked)
		if !strings.Contains(p.Reason, "regex") && !strings.Contains(p.Reason, "missing )") {
			t.Errorf("the reason is %q, want Envoy's own text", p.Reason)
		}
		proxy(t, f.catenary, "admin-1", xds.StateSynced)
		answers(t, api, "v1")
		r := testenv.Run(t, nil, "proxies", "--admin-addr", f.catenary.AdminAddr)
		if r.Code != 1 || !strings.Contains(r.Stdout, "NACKED") {
			t.Errorf("catenary proxies: exit %d\n%s%s", r.Code, r.Stdout, r.Stderr)
		}
		// Others go on changing, and the refused content is not sent again.
		before := f.catenary.Metrics()[`catenary_xds_nacks_total{type="route"}`]
		f.register("stock", testenv.StartBackend(t, "s2"))
		f.consul.Deregister("stock-s1")
		answers(t, stock, "s2")
		if after := f.catenary.Metrics()[`catenary_xds_nacks_total{type="route"}`]; after != before {
			t.Errorf("the refused route was sent again: %v NACKs, then %v", before, after)
		}
		f.consul.DeleteEntry("service-router", "api")
		proxy(t, f.catenary, "web-1", xds.StateSynced)
	})
}

// TestHowLongAWriteTakes says how long it takes from `consul config write` to the first request that
// follows it. It is a measurement: it fails only when requests do not follow at all.
func TestHowLongAWriteTakes(t *testing.T) {
	f := startFleet(t, false)
	f.register("api", testenv.StartBackend(t, "v1"))
	f.register("api", testenv.StartBackend(t, "v2"))
	f.http("api")
	f.subsets("api", "v1", "v2")
	f.split("api", 100, 0)
	api, up := port(t, "api")
	f.envoy("web", up).WaitReady()
	answers(t, api, "v1")

	const rounds = 20
	var write, follow []time.Duration
	for i := range rounds {
		want, v1 := "v1", 100
		if i%2 == 0 {
			want, v1 = "v2", 0
		}
		begin := time.Now()
		f.split("api", v1, 100-v1)
		written := time.Now()
		for tally(api, 1)[want] == 0 {
			if time.Since(written) > patience {
				t.Fatalf("round %d: no request followed within %s", i, patience)
			}
		}
		write = append(write, written.Sub(begin))
		follow = append(follow, time.Since(begin))
	}
	slices.Sort(write)
	slices.Sort(follow)
	t.Logf("p50 of %d: %s from the start of `consul config write` to the first request that follows it; "+
		"the command itself took %s (min %s max %s)",
		rounds, follow[rounds/2], write[rounds/2], follow[0], follow[rounds-1])
}

func TestAConsulWithoutItsMesh(t *testing.T) {
	t.Parallel()
	consul := testenv.StartConsul(t, testenv.WithoutMesh())
	f := &fleet{t: t, consul: consul}
	f.catenary = testenv.StartCatenary(t, consul.Env(), "--consul-addr", consul.HTTPAddr())
	testenv.Eventually(t, patience, f.catenary.Ready)
	f.register("api", testenv.StartBackend(t, "v1"))
	f.http("api")
	api, up := port(t, "api")
	f.envoy("web", up).WaitReady()
	answers(t, api, "v1")
	if n := strings.Count(f.catenary.Log(), "--trust-domain"); n != 1 {
		t.Errorf("the log tells %d times of the trust domain that Consul does not have:\n%s", n, f.catenary.Log())
	}
}
