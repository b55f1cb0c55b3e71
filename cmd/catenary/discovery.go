package main

import (
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/pflag"

	"github.com/catenary-mesh/catenary/hds"
	hdsserver "github.com/catenary-mesh/catenary/hds/server"
	"github.com/catenary-mesh/catenary/internal/admin"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/metrics"
)

// discoveryFlags say what the Envoys of the fleet probe, and how often they report.
type discoveryFlags struct {
	otherwise string
	checks    bool
	rest      bool
	every     time.Duration
}

func (f *discoveryFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.otherwise, "hds-default", "", "tcp: have the checkers probe by TCP connect what says no `probe` of its own (default none)")
	flags.BoolVar(&f.checks, "hds-from-checks", false, "have the checkers probe what says no probe of its own as the definitions of its checks say, where the catalog has them")
	flags.BoolVar(&f.rest, "hds-rest", false, "take in what checkers send by REST to the HTTP side too, with the same proof of who they are")
	flags.DurationVar(&f.every, "hds-report-interval", time.Second, "how often checkers report what they found out")
}

// discovery is health discovery as the flags want it.
type discovery struct {
	tcp, checks, rest bool
	every             time.Duration
}

func (f *discoveryFlags) open() (discovery, error) {
	if f.otherwise != "" && f.otherwise != string(hds.TCP) {
		return discovery{}, fmt.Errorf("--hds-default %q: tcp is all that can be the default", f.otherwise)
	}
	if f.every != hds.ReportInterval(f.every) {
		return discovery{}, fmt.Errorf("--hds-report-interval %s: give %s to %s", f.every, hds.ReportInterval(0), hds.ReportInterval(time.Hour))
	}
	return discovery{tcp: f.otherwise != "", checks: f.checks, rest: f.rest, every: f.every}, nil
}

// server returns the server of a plane. The sets of what is probed wait for it from now on.
func (d discovery) server(p *plane, store *facts.Store, place place) *hdsserver.Server {
	s := hdsserver.New(hdsserver.Config{
		Store: store, Logger: p.log, Datacenter: place.datacenter, TrustDomain: place.trustDomain,
		Guard: p.auth.guard(place, p.log), Believe: len(p.auth.ways) == 0,
		DefaultTCP: d.tcp, FromChecks: d.checks, ReportInterval: d.every,
	})
	s.Hold()
	p.counts.Figures(func() []metrics.Figure { return figures(s.Figures()) })
	if len(p.auth.ways) == 0 {
		p.log.Info("checkers are believed to be who they say they are, and each has a vote: --grpc-auth asks for proof")
	}
	return s
}

// health is what the HTTP side tells of health discovery.
func (p *plane) health() *admin.Health {
	h := &admin.Health{
		Services: func(name string) []admin.ServiceHealth {
			if s := p.hds.Load(); s != nil {
				return s.Health(name)
			}
			return nil
		},
		Checkers: func() []admin.Checker {
			if s := p.hds.Load(); s != nil {
				return s.Checkers()
			}
			return nil
		},
		Release: func(name, who string) bool {
			s := p.hds.Load()
			return s != nil && s.Release(name, who)
		},
	}
	if p.questions.operator != nil {
		h.Operator = p.questions.operator.Is
	}
	return h
}

// healthREST takes in what checkers send by REST, where that is wanted.
func (p *plane) healthREST() http.HandlerFunc {
	if !p.checks.rest {
		return nil
	}
	return func(w http.ResponseWriter, r *http.Request) {
		if s := p.hds.Load(); s != nil {
			s.ServeREST(w, r)
			return
		}
		http.Error(w, p.silent(), http.StatusServiceUnavailable)
	}
}

// figures are those of health discovery for the page of metrics.
func figures(f hdsserver.Figures) []metrics.Figure {
	gauge := func(name, help string, value int) metrics.Figure {
		return metrics.Figure{Name: name, Help: help, Value: float64(value)}
	}
	count := func(name, help string, value uint64) metrics.Figure {
		return metrics.Figure{Name: name, Help: help, Counter: true, Value: float64(value)}
	}
	labelled := func(f metrics.Figure, label, of string) metrics.Figure {
		f.Label, f.Of = label, of
		return f
	}
	const checkers = "Connections of checkers, by whether they work, stand by for another of the same identity, or are broken."
	const endpoints = "Endpoints that are probed, by the verdict on them."
	const votes = "Votes that checkers could cast, by whether they do."
	return []metrics.Figure{
		labelled(gauge("checkers", checkers, f.Checkers), "state", "working"),
		labelled(gauge("checkers", checkers, f.StandingBy), "state", "standing-by"),
		labelled(gauge("checkers", checkers, f.Broken), "state", "broken"),
		labelled(gauge("endpoints", endpoints, f.Up), "verdict", "up"),
		labelled(gauge("endpoints", endpoints, f.Down), "verdict", "down"),
		labelled(gauge("endpoints", endpoints, f.Unknown), "verdict", "unknown"),
		labelled(gauge("votes", votes, f.Votes), "state", "fresh"),
		labelled(gauge("votes", votes, f.Silent), "state", "silent"),
		gauge("duties", "Endpoints that checkers were told to probe, each as often as it has checkers.", f.Duties),
		gauge("endpoints_short", "Endpoints that have fewer checkers than there could be.", f.Short),
		gauge("endpoints_refused", "Endpoints that ask for a probe which no checker is given: catenary health says why.", f.Unprobed),
		gauge("endpoints_split", "Endpoints about which zones disagree.", f.Split),
		gauge("frozen_services", "Services whose verdicts are kept because too many went down at once.", f.FrozenServices),
		count("freezes_total", "Freezes of services.", f.Freezes),
		count("reports_total", "Reports of checkers.", f.Reports),
		count("observations_total", "States of endpoints in reports that were not in the report before.", f.Observations),
		count("specifiers_total", "Specifiers sent to checkers.", f.Specifiers),
		count("verdict_changes_total", "Verdicts that changed.", f.Changes),
		count("sanitizer_refusals_total", "Duties that were left out of a specifier because no checker, or not this one, is given them.", f.Refused),
		count("checkers_broken_total", "How often a checker was found to be broken.", f.BrokenTotal),
		{Name: "report_lag_seconds_sum", Help: "The times between the reports of checkers, together.", Counter: true, Value: f.ReportLag.Seconds()},
		count("report_lag_seconds_count", "The times between reports that are in the sum.", f.ReportLags),
	}
}
