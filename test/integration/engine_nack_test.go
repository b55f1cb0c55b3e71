package integration_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
)

// refused are entries that Consul and catenary accept and an Envoy does not.
func refused() []struct{ name, typ, text, entry, file string } {
	return []struct{ name, typ, text, entry, file string }{
		{"an expression that RE2 cannot read", "route", "missing )", `
Kind = "service-router"
Name = "api"
Routes = [{ Match { HTTP { PathRegex = "/(" } } }]
`, "router.hcl"},
		{"a hash ring larger than Envoy's largest", "cluster", "less than or equal to 8388608", `
Kind = "service-resolver"
Name = "api"
LoadBalancer { Policy = "ring_hash", RingHashConfig { MinimumRingSize = 9000000, MaximumRingSize = 9000000 } }
`, "resolver.hcl"},
	}
}

func TestWhatAnEnvoyRefusesIsToldAndHoldsNothingElseUp(t *testing.T) {
	t.Parallel()
	peers(t, func(t *testing.T, p peer) {
		f, _ := oneService(t)
		stocks := func(version string) {
			t.Helper()
			b := testenv.StartBackend(t, version)
			f.write("stock.hcl", service("stock", "stock-"+version, b.Port, "passing"))
		}
		stocks("s1")
		api, up := port(t, "api")
		stock, stockUp := port(t, "stock")
		e := p.envoy(t, f.catenary.GRPCAddr, up, stockUp)
		// Another proxy of the same service, which does not have the upstream.
		others, othersUp := port(t, "stock")
		startEnvoy(t, f.catenary, p.sotw, "admin", othersUp).WaitReady()
		answers(t, api, "v1")
		for i, r := range refused() {
			f.write(r.file, r.entry)
			status := proxy(t, f.catenary, p.id(), xds.StateNacked)
			if !strings.HasPrefix(status.Reason, r.typ+": ") || !strings.Contains(status.Reason, r.text) {
				t.Errorf("%s: the reason is %q, want Envoy's own text", r.name, status.Reason)
			}
			shown := testenv.Run(t, nil, "proxies", "--admin-addr", f.catenary.AdminAddr)
			if shown.Code != 1 || !strings.Contains(shown.Stdout, "NACKED") || !strings.Contains(shown.Stdout, r.text) {
				t.Errorf("%s: catenary proxies: exit %d\n%s%s", r.name, shown.Code, shown.Stdout, shown.Stderr)
			}
			// What was in force stays, and everything else goes on: for others, and for the proxy itself.
			before := f.catenary.Metrics()
			proxy(t, f.catenary, "admin-1", xds.StateSynced)
			answers(t, api, "v1")
			version := fmt.Sprintf("s%d", i+2)
			stocks(version)
			answers(t, stock, version)
			answers(t, others, version)
			f.write("stock-resolver.hcl", connectTimeout("stock", 40+i))
			promptly(t, "a change beside a refused one", func() error { return timesOutAfter(t, e, stockCluster, 40+i) })
			proxy(t, f.catenary, "admin-1", xds.StateSynced)
			nacks := fmt.Sprintf("catenary_xds_nacks_total{type=%q}", r.typ)
			if n := f.catenary.Metrics()[nacks] - before[nacks]; n > 1 {
				t.Errorf("%s: refused %v times more", r.name, n)
			}
			// An Envoy that begins with it gets all the rest.
			e.Restart()
			e.WaitReady()
			answers(t, stock, version)
			status = proxy(t, f.catenary, p.id(), xds.StateNacked)
			if !strings.Contains(status.Reason, r.text) {
				t.Errorf("%s, from the beginning: the reason is %q", r.name, status.Reason)
			}
			if err := os.Remove(filepath.Join(f.dir, r.file)); err != nil {
				t.Fatal(err)
			}
			proxy(t, f.catenary, p.id(), xds.StateSynced)
			answers(t, api, "v1")
		}
	})
}
