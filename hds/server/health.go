package server

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/catenary-mesh/catenary/hds"
)

// ServiceHealth is what health discovery knows of a service, as /api/v1/health prints it.
type ServiceHealth struct {
	Service string `json:"service"`
	// Frozen says why the verdicts are kept as they were; empty when they are not.
	Frozen string `json:"frozen,omitempty"`
	// FrozenSince is when that began.
	FrozenSince *time.Time `json:"frozenSince,omitempty"`
	// Refused are the endpoints that no checker is given, and why.
	Refused []RefusedEndpoint `json:"refused,omitempty"`
	// Notes say what is probed otherwise than its checks say, and why.
	Notes     []string         `json:"notes,omitempty"`
	Endpoints []EndpointHealth `json:"endpoints"`
}

// RefusedEndpoint is an endpoint that is not probed although it asks for it.
type RefusedEndpoint struct {
	Address string `json:"address"`
	Reason  string `json:"reason"`
}

// EndpointHealth is what is known of an endpoint.
type EndpointHealth struct {
	Address string `json:"address"`
	Node    string `json:"node,omitempty"`
	Region  string `json:"region,omitempty"`
	Zone    string `json:"zone,omitempty"`
	// Probe is what checkers do, From where that is written: meta, a check or default.
	Probe string `json:"probe"`
	From  string `json:"from"`
	// Policy is how the verdict and Consul's checks are joined: and, consul or hds.
	Policy string `json:"policy"`
	// Consul is what its checks say: passing, warning, critical or maintenance.
	Consul string `json:"consul"`
	// Verdict is up, down or unknown, Since when and Why it is so.
	Verdict string     `json:"verdict"`
	Since   *time.Time `json:"since,omitempty"`
	Why     string     `json:"why"`
	Votes   []Vote     `json:"votes"`
}

// Vote is that of one checker.
type Vote struct {
	Checker string `json:"checker"`
	Vote    string `json:"vote"`
	// AgeSeconds is for how long the checker has said so; negative when it has said nothing.
	AgeSeconds float64 `json:"ageSeconds"`
	Reason     string  `json:"reason,omitempty"`
}

// Health returns what is known of a service, or of all services that have anything to be probed with no name, in
// order. It is empty for one that has nothing.
func (s *Server) Health(name string) []ServiceHealth {
	var names []string
	var about overview
	s.ask(func(e *engine, now time.Time) {
		for _, key := range slices.Sorted(maps.Keys(e.services)) {
			if name == "" || key == strings.ToLower(name) {
				names = append(names, key)
			}
		}
		about = e.overview(now)
	})
	list := []ServiceHealth{}
	for _, key := range names { // one at a time: reports are heard between them
		s.ask(func(e *engine, now time.Time) {
			if svc := e.services[key]; svc != nil && len(svc.claims) > 0 {
				list = append(list, e.health(now, svc, about))
			}
		})
	}
	return list
}

// overview is what there is to say of all services alike.
type overview struct {
	crew crew
	// blocked are the versions of Envoy that are not given a probe for now.
	blocked map[hds.Probe][]string
}

func (e *engine) overview(now time.Time) overview {
	o := overview{crew: e.crew(), blocked: map[hds.Probe][]string{}}
	for _, b := range e.canary.Blocked(now) {
		o.blocked[b.Probe] = append(o.blocked[b.Probe], b.Version)
	}
	return o
}

func (e *engine) health(now time.Time, s *service, about overview) ServiceHealth {
	refused, notes := s.told()
	notes = append(notes, s.blocked(about.blocked)...)
	out := ServiceHealth{Service: s.name, Notes: notes, Endpoints: []EndpointHealth{}}
	for _, r := range refused {
		out.Refused = append(out.Refused, RefusedEndpoint{addressText(r.Key), r.Reason})
	}
	if f, ok := e.verdicts.Freeze(s.name); ok {
		since := f.Since.UTC()
		out.Frozen, out.FrozenSince = f.Reason, &since
	}
	for k, c := range s.probed {
		x, ok := e.verdicts.Explain(k)
		if !ok {
			continue
		}
		if len(x.Votes) == 0 && !x.Frozen {
			x.Why = about.crew.lacks(x)
		}
		h := endpointHealth(now, x)
		h.From, h.Consul = c.from, c.consul()
		out.Endpoints = append(out.Endpoints, h)
	}
	slices.SortFunc(out.Endpoints, func(a, b EndpointHealth) int { return strings.Compare(a.Address, b.Address) })
	return out
}

// blocked says which of a service's probes no checker is given for now.
func (s *service) blocked(versions map[hds.Probe][]string) []string {
	texts := map[string]struct{}{}
	for _, c := range s.probed {
		for _, version := range versions[c.duty.Probe] {
			texts[fmt.Sprintf("no Envoy %s is given the probe %s for a while: three went away, or did not do it, as they got it", version, probeText(c.duty.Probe))] = struct{}{}
		}
	}
	return slices.Sorted(maps.Keys(texts))
}

func endpointHealth(now time.Time, x hds.Explanation) EndpointHealth {
	d := x.Duty
	h := EndpointHealth{
		Address: addressText(d.Key), Node: d.Node, Region: d.Region, Zone: d.Zone,
		Probe: probeText(d.Probe), Policy: string(d.Policy), Verdict: x.Verdict.String(), Why: x.Why, Votes: []Vote{},
	}
	if !x.Since.IsZero() {
		since := x.Since.UTC()
		h.Since = &since
	}
	for _, v := range x.Votes {
		vote := Vote{Checker: v.Checker, Vote: v.Vote.String(), AgeSeconds: -1, Reason: v.Reason}
		if !v.Since.IsZero() {
			vote.AgeSeconds = now.Sub(v.Since).Round(time.Millisecond).Seconds()
		}
		h.Votes = append(h.Votes, vote)
	}
	return h
}

// probeText is a probe in a few words.
func probeText(p hds.Probe) string {
	text := string(p.Protocol)
	if p.TLS {
		text += "+tls"
	}
	if p.Path != "" {
		text += " " + p.Path
	}
	if p.Port != 0 {
		text += fmt.Sprintf(" :%d", p.Port)
	}
	return text + " every " + p.Interval.String()
}

// Release ends the freeze of a service, for who asked for it. It reports whether there was one.
func (s *Server) Release(name, who string) bool {
	released := false
	s.ask(func(e *engine, now time.Time) {
		name = strings.ToLower(name)
		svc := e.services[name]
		if _, released = e.verdicts.Release(now, name); !released || svc == nil {
			return
		}
		e.log.Warn("an operator ended the freeze of a service", "service", name, "by", who)
		e.publish(svc, nil)
		e.alarm()
		e.settleSoon(now)
	})
	return released
}

// Figures are numbers for metrics.
type Figures struct {
	hds.Totals
	Checkers, StandingBy, Broken int
	Duties                       int
	// Short are endpoints that have fewer checkers than there could be, Unprobed those that are refused.
	Short, Unprobed int
	// FrozenServices are those whose verdicts are kept.
	FrozenServices int

	// The others count since the start.
	Reports, Observations, Specifiers, Changes uint64
	Refused, BrokenTotal, Freezes              uint64
	// ReportLag is the sum of the times between reports, of which there are ReportLags.
	ReportLag  time.Duration
	ReportLags uint64
}

// Figures returns the numbers as they are now.
func (s *Server) Figures() (f Figures) {
	s.ask(func(e *engine, _ time.Time) {
		c := &e.counts
		f = Figures{
			Totals: e.verdicts.Totals(), Short: e.assignment.Short(), FrozenServices: len(e.frozen),
			Reports: c.Reports, Observations: c.Observations, Specifiers: c.Specifiers, Changes: c.Changes,
			Refused: c.Refused, BrokenTotal: c.Broken, Freezes: c.Freezes, ReportLag: c.lagSum, ReportLags: c.lagCount,
		}
		for _, svc := range e.services {
			f.Unprobed += svc.unprobed()
		}
		for _, ch := range e.checkers {
			for _, st := range ch.streams {
				switch {
				case st.broken != "":
					f.Broken++
				case st == ch.active:
					f.Checkers++
					f.Duties += len(st.told)
				default:
					f.StandingBy++
				}
			}
		}
	})
	return f
}
