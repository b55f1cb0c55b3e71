package server

import (
	"maps"
	"net/netip"
	"time"

	"github.com/catenary-mesh/catenary/hds"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// publish commits the verdicts on endpoints of a service, or on all with no keys. What is held at a start waits for
// all of them.
func (e *engine) publish(s *service, keys []hds.Key) {
	if s.held {
		if !s.known || !e.complete(s) {
			return
		}
		s.held = false
	}
	next := facts.Verdicts{}
	if s.verdicts == nil || len(keys) == 0 {
		for k := range s.probed {
			e.verdict(s, k, next)
		}
	} else {
		next = maps.Clone(s.verdicts)
		for _, k := range keys {
			e.verdict(s, k, next)
		}
	}
	s.verdicts = next
	e.cfg.Store.Commit(func(tx *facts.Tx) { tx.Verdicts(facts.VerdictsOf(e.cfg.Datacenter, s.name), next) })
}

// verdict notes the verdict on an endpoint, or that there is none.
func (e *engine) verdict(s *service, k hds.Key, in facts.Verdicts) {
	ip, err := netip.ParseAddr(k.Address)
	if err != nil {
		return
	}
	at := netip.AddrPortFrom(ip, uint16(k.Port))
	v, c := e.verdicts.Verdict(k), s.probed[k]
	if c == nil || v == hds.Unknown || c.duty.Policy == hds.Consul {
		delete(in, at)
		return
	}
	in[at] = facts.Verdict{Up: v == hds.Up, Only: c.duty.Policy == hds.Only}
}

// complete reports whether there are all the verdicts that count.
func (e *engine) complete(s *service) bool {
	for k, c := range s.probed {
		if c.duty.Policy != hds.Consul && e.verdicts.Verdict(k) == hds.Unknown {
			return false
		}
	}
	return true
}

// returning is for how long after a start clients and checkers come back, if any checker does.
const returning = 10 * time.Second

// holds reports whether the set of a service that is new to the engine waits for verdicts.
func (e *engine) holds(now time.Time) bool {
	return e.awaiting && now.Sub(e.started) < returning
}

// await ends what waits at a start. A set waits from when there is one and a client for it, for a client must not
// wait longer because it came late; and as long as there are no checkers that could say anything, from the start.
func (e *engine) await(now time.Time) {
	hopeless := len(e.checkers) == 0 && now.Sub(e.started) >= e.cfg.StartWithin
	waiting := !hopeless && now.Sub(e.started) < returning
	for _, s := range e.services {
		if !s.held {
			continue
		}
		if s.until.IsZero() && s.known && s.wanted {
			s.until = now.Add(e.cfg.StartWithin - tick) // which is how late this may be
		}
		if hopeless || !s.until.IsZero() && !now.Before(s.until) {
			e.unhold(s)
		}
		waiting = waiting || s.held && !s.until.IsZero()
	}
	if waiting {
		return
	}
	e.awaiting = false
	for _, s := range e.services {
		if s.held {
			e.unhold(s)
		}
	}
	e.cfg.Store.Commit(func(tx *facts.Tx) { tx.Await(facts.Awaiting{}) })
}

// unhold publishes what is known of a service that waits.
func (e *engine) unhold(s *service) {
	s.held = false
	e.publish(s, nil)
}
