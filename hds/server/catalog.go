package server

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/hds"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/snapshot"
)

// needer is under which name the facts are needed.
const needer = "health discovery"

// service is a service whose endpoints may be probed.
type service struct {
	// name is in lower case.
	name string
	set  string
	// topics are those whose instances are endpoints that somebody dials, or that ask to be probed.
	topics []facts.Topic
	duties map[hds.Key]hds.Duty
	// refused and notes say what is not probed, and what is probed otherwise than it asks for, and why.
	refused []hds.Refusal
	notes   []string
	consul  map[hds.Key]string // what Consul's checks say
	from    map[hds.Key]string // where the probe comes from
	known   bool               // all topics are known
}

// follow finds out which services there are: those that somebody needs, and those whose defaults ask for
// probes.
func (e *engine) follow(now time.Time) {
	e.followed, e.strayed = now, false
	view := e.cfg.Store.View()
	topics := map[string][]facts.Topic{}
	var asked []facts.Topic
	for _, entry := range view.AllEntries(chain.KindServiceDefaults) {
		if h := entry.Head(); snapshot.AsksForProbes(h.Meta) && strings.TrimSpace(h.Name) != "" {
			asked = append(asked, facts.Health(e.cfg.Datacenter, h.Name))
		}
	}
	e.cfg.Store.Need(needer, asked...)
	needed, _ := e.cfg.Store.Needs()
	for _, t := range append(needed, asked...) {
		mesh := t.Kind == facts.TopicConnect
		if t.Kind != facts.TopicHealth && !mesh || t.Peer != "" || t.Datacenter != e.cfg.Datacenter || slices.Contains(topics[t.Name], t) {
			continue
		}
		topics[t.Name] = append(topics[t.Name], t)
	}
	for name, s := range e.services {
		if topics[name] == nil {
			e.drop(s)
		}
	}
	for name, list := range topics {
		slices.SortFunc(list, func(a, b facts.Topic) int { return strings.Compare(a.String(), b.String()) })
		s := e.services[name]
		if s == nil {
			s = &service{name: name, set: fmt.Sprintf("%s.default.%s.internal.%s", name, e.cfg.Datacenter, e.cfg.TrustDomain)}
			e.services[name], e.sets[s.set] = s, s
		} else if slices.Equal(s.topics, list) {
			continue
		}
		s.topics = list
		e.stale[name] = struct{}{}
	}
	e.refresh(view)
}

// changed takes in what the facts changed.
func (e *engine) changed(now time.Time) {
	view, ids := e.sub.Drain()
	again, all := false, false
	for _, id := range ids {
		switch id.Topic.Kind {
		case facts.TopicHealth, facts.TopicConnect:
			e.stale[id.Topic.Name] = struct{}{}
		case facts.TopicEntries:
			if id.Topic.Name != string(chain.KindServiceDefaults) {
				continue
			}
			again = true
			e.stale[id.Row] = struct{}{}
			all = all || id.Row == facts.StatusRow
		case facts.TopicServices:
			again, all = true, true // one may be known not to exist
		default:
		}
	}
	for name := range e.services {
		if all {
			e.stale[name] = struct{}{}
		}
	}
	if again {
		e.follow(now)
		return
	}
	e.refresh(view)
}

// refresh makes the duties of what changed.
func (e *engine) refresh(view facts.View) {
	for name := range e.stale {
		if s := e.services[name]; s != nil {
			e.survey(view, s)
		}
	}
	clear(e.stale)
	e.moved()
}

func (e *engine) drop(s *service) {
	keys := slices.Collect(maps.Keys(s.duties))
	e.assignment.Remove(keys...)
	e.verdicts.Remove(keys...)
	delete(e.services, s.name)
	delete(e.sets, s.set)
	e.cfg.Store.Commit(func(tx *facts.Tx) { tx.Forget(facts.VerdictsOf(e.cfg.Datacenter, s.name)) })
	e.moved()
}

// survey finds out how the endpoints of a service are to be probed.
func (e *engine) survey(view facts.View, s *service) {
	before := s.duties
	s.duties, s.consul, s.from = map[hds.Key]hds.Duty{}, map[hds.Key]string{}, map[hds.Key]string{}
	s.refused, s.notes, s.known = nil, nil, true
	var meta map[string]string
	if entry, _ := view.Entry(chain.KindServiceDefaults, s.name); entry != nil {
		meta = entry.Head().Meta
	}
	for _, t := range s.topics {
		s.known = s.known && view.Known(t)
		instances, _ := view.Instances(t)
		for _, in := range instances {
			e.assess(s, in, meta, t.Kind == facts.TopicConnect)
		}
	}
	var gone []hds.Key
	for k := range before {
		if _, ok := s.duties[k]; !ok {
			gone = append(gone, k)
		}
	}
	e.assignment.Remove(gone...)
	e.verdicts.Remove(gone...)
	var put []hds.Duty
	for k, d := range s.duties {
		if before[k] != d {
			put = append(put, d)
		}
	}
	slices.SortFunc(put, func(a, b hds.Duty) int { return strings.Compare(a.Address, b.Address) })
	e.assignment.Put(put...)
	e.verdicts.Put(put...)
	e.publish(s)
}

// maxNotes bounds what is told of a service.
const maxNotes = 100

// assess finds out how one endpoint is to be probed.
func (e *engine) assess(s *service, in *facts.Instance, meta map[string]string, mesh bool) {
	// Most fleets have services that nobody probes, and flips of them cost next to nothing.
	if !e.cfg.DefaultTCP && !e.cfg.FromChecks && !snapshot.AsksForProbes(meta) && !snapshot.AsksForProbes(in.Service.Meta) {
		return
	}
	address, port := snapshot.Dial(in, false)
	duty := hds.Duty{Endpoint: hds.Endpoint{
		Key:     hds.Key{Set: s.set, Address: address, Port: uint32(max(port, 0))},
		Service: s.name, Node: in.Node.Node,
	}}.Canonical()
	if l := snapshot.LocalityOf(in); l != nil {
		duty.Region, duty.Zone = l.Region, l.Zone
	}
	q := hds.Question{ServiceMeta: meta, InstanceMeta: in.Service.Meta, Address: address, DefaultTCP: e.cfg.DefaultTCP, Mesh: mesh}
	if e.cfg.FromChecks {
		q.Definitions = definitions(in)
	}
	c := hds.Choose(q)
	for _, text := range c.Skipped {
		s.note(fmt.Sprintf("%s on %s: %s", in.Service.ID, in.Node.Node, text))
	}
	duty.Probe, duty.Policy = c.Probe, c.Policy
	if c.Found && c.Refused == "" {
		c.Refused = duty.Problem()
	}
	_, twice := s.duties[duty.Key]
	switch {
	case twice:
	case c.Refused != "":
		if len(s.refused) < maxNotes {
			s.refused = append(s.refused, hds.Refusal{Key: duty.Key, Service: s.name, Reason: c.Refused})
		}
	case c.Found:
		s.duties[duty.Key], s.from[duty.Key] = duty, c.From
		s.consul[duty.Key] = string(snapshot.WorstStatus(in))
		if snapshot.InMaintenance(in) {
			s.consul[duty.Key] = "maintenance"
		}
	}
}

// definitions are those of the checks of an instance, and not of its node.
func definitions(in *facts.Instance) []hds.Definition {
	var list []hds.Definition
	for i := range in.Checks {
		c := &in.Checks[i]
		if c.ServiceID == "" {
			continue
		}
		d := hds.Definition{CheckID: c.CheckID}
		if x := c.Definition; x != nil {
			d.HTTP, d.TCP, d.GRPC, d.Method, d.Body, d.Header = x.HTTP, x.TCP, x.GRPC, x.Method, x.Body, x.Header
			d.TLS, d.Interval, d.Timeout = x.TLS, x.Interval, x.Timeout
		}
		list = append(list, d)
	}
	return list
}

func (s *service) note(text string) {
	if len(s.notes) < maxNotes {
		s.notes = append(s.notes, text)
	}
}

// publish commits the verdicts on a service's endpoints. At a start it waits for all of them.
func (e *engine) publish(s *service) {
	facted := make(facts.Verdicts, len(s.duties))
	for k, d := range s.duties {
		v := e.verdicts.Verdict(k)
		if v == hds.Unknown && e.awaiting {
			return
		}
		ip, err := netip.ParseAddr(k.Address)
		if v == hds.Unknown || d.Policy == hds.Consul || err != nil {
			continue
		}
		facted[netip.AddrPortFrom(ip, uint16(k.Port))] = facts.Verdict{Up: v == hds.Up, Only: d.Policy == hds.Only}
	}
	if e.awaiting && !s.known {
		return
	}
	e.cfg.Store.Commit(func(tx *facts.Tx) { tx.Verdicts(facts.VerdictsOf(e.cfg.Datacenter, s.name), facted) })
}
