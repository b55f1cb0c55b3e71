package main

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/catenary-mesh/catenary/hds"
	hdsserver "github.com/catenary-mesh/catenary/hds/server"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// discoveryFlags say what the Envoys of the fleet probe, and how often they report.
type discoveryFlags struct {
	otherwise string
	every     time.Duration
}

func (f *discoveryFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.otherwise, "hds-default", "", "tcp: have the checkers probe by TCP connect what says no `probe` of its own (default none)")
	flags.DurationVar(&f.every, "hds-report-interval", time.Second, "how often checkers report what they found out")
}

// discovery is health discovery as the flags want it.
type discovery struct {
	tcp   bool
	every time.Duration
}

func (f *discoveryFlags) open() (discovery, error) {
	if f.otherwise != "" && f.otherwise != string(hds.TCP) {
		return discovery{}, fmt.Errorf("--hds-default %q: tcp is all that can be the default", f.otherwise)
	}
	if f.every != hds.ReportInterval(f.every) {
		return discovery{}, fmt.Errorf("--hds-report-interval %s: give %s to %s", f.every, hds.ReportInterval(0), hds.ReportInterval(time.Hour))
	}
	return discovery{tcp: f.otherwise != "", every: f.every}, nil
}

// server returns the server of a plane. The sets of what is probed wait for it from now on.
func (d discovery) server(p *plane, store *facts.Store, place place) *hdsserver.Server {
	s := hdsserver.New(hdsserver.Config{
		Store: store, Logger: p.log, Datacenter: place.datacenter, TrustDomain: place.trustDomain,
		Guard: p.auth.guard(place, p.log), Believe: len(p.auth.ways) == 0,
		DefaultTCP: d.tcp, ReportInterval: d.every,
	})
	s.Hold()
	return s
}
