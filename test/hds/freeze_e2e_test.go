//go:build e2e

package hds_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// TestAServiceThatGoesDownAtOnceIsFrozenUntilSomebodyReleasesIt has three of four backends fail.
func TestAServiceThatGoesDownAtOnceIsFrozenUntilSomebodyReleasesIt(t *testing.T) {
	t.Parallel()
	f := startFleet(t, "--hds-report-interval", "100ms")
	var backends []*web
	text := ""
	for i := range 4 {
		backends = append(backends, startWeb(t, 200))
		text += instance("api", fmt.Sprint("api-", i), backends[i].port, probe("5s", "hds-protocol", "http")...)
	}
	f.write("api.hcl", text)
	for i := range 3 {
		f.checker(fmt.Sprintf("checker-%d", i))
	}
	health := f.follower("api")
	f.up("api")

	for _, b := range backends[1:] {
		b.status.Store(503)
	}
	testenv.Eventually(t, patience, f.saysFrozen)
	// The brake acts as more than half go down: one or two may have been down before.
	testenv.Throughout(t, time.Second, func() error {
		down := 0
		for _, h := range health() {
			if h == "UNHEALTHY" {
				down++
			}
		}
		if down > 2 {
			return fmt.Errorf("%d of 4 are down", down)
		}
		return nil
	})
	if m := f.catenary.Metrics(); m["catenary_hds_frozen_services"] != 1 || m["catenary_hds_freezes_total"] != 1 {
		t.Errorf("metrics: %v", m)
	}

	r := testenv.Run(t, nil, "health", "--release", "api", "--admin-addr", f.catenary.AdminAddr)
	if r.Code != 0 || !strings.Contains(r.Stdout, "follow the votes again") {
		t.Errorf("exit %d %s%s", r.Code, r.Stdout, r.Stderr)
	}
	for _, b := range backends[1:] {
		sees(t, health, b.port, "UNHEALTHY")
	}
	sees(t, health, backends[0].port, "HEALTHY")
}

// saysFrozen reports whether the command line says that api is frozen, with all that is down to its checkers.
func (f *fleet) saysFrozen() error {
	r := testenv.Run(f.t, nil, "health", "api", "--admin-addr", f.catenary.AdminAddr)
	if r.Code != 1 || strings.Count(r.Stdout, "=down") != 9 || !strings.Contains(r.Stdout, "(frozen)") || !strings.Contains(r.Stderr, "health --release api") {
		return fmt.Errorf("exit %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	return nil
}
