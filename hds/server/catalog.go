package server

import (
	"fmt"
	"maps"
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
	needed, needers := e.cfg.Store.Needs()
	for _, t := range asked {
		needers[t]-- // a client waits, and health discovery does not
	}
	wanted := map[string]bool{}
	for _, t := range slices.Concat(needed, asked, e.offered(view)) {
		mesh := t.Kind == facts.TopicConnect
		if t.Kind != facts.TopicHealth && !mesh || t.Peer != "" || t.Datacenter != e.cfg.Datacenter {
			continue
		}
		wanted[t.Name] = wanted[t.Name] || needers[t] > 0
		if !slices.Contains(topics[t.Name], t) {
			topics[t.Name] = append(topics[t.Name], t)
		}
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
			s = &service{name: name, held: e.holds(now), set: fmt.Sprintf("%s.default.%s.internal.%s", name, e.cfg.Datacenter, e.cfg.TrustDomain)}
			e.services[name], e.sets[s.set] = s, s
		}
		s.wanted = wanted[name]
		if s.arrange(list) {
			e.look(name, true)
		}
	}
	e.refresh(view)
}

// offered are the topics of services of which an instance asks for probes, where all there is is known. Of a Consul
// that is not so: its list of services holds no Meta, and to follow all instances of all services costs too much.
func (e *engine) offered(view facts.View) []facts.Topic {
	if !view.Closed() {
		return nil
	}
	var topics []facts.Topic
	for _, name := range view.AllServices(e.cfg.Datacenter) {
		t := facts.Health(e.cfg.Datacenter, name)
		instances, _ := view.Instances(t)
		// Sidecars take over the Meta of what they stand before, and are endpoints of that.
		if slices.ContainsFunc(instances, func(in *facts.Instance) bool {
			return in.Service.Kind == "" && snapshot.AsksForProbes(in.Service.Meta)
		}) {
			topics = append(topics, t)
		}
	}
	return topics
}

// changed takes in what the facts changed.
func (e *engine) changed(now time.Time) {
	view, ids := e.sub.Drain()
	again, all := false, false
	for _, id := range ids {
		switch id.Topic.Kind {
		case facts.TopicHealth, facts.TopicConnect:
			e.look(id.Topic.Name, false)
			again = again || view.Closed() // an instance may ask for probes now
		case facts.TopicEntries:
			if id.Topic.Name == string(chain.KindServiceDefaults) {
				again = true
				e.look(id.Row, true)
			}
		case facts.TopicServices:
			again, all = true, true // one may be known not to exist
		default:
		}
	}
	if all {
		for name := range e.services {
			e.look(name, false)
		}
	}
	if again {
		e.follow(now)
		return
	}
	e.refresh(view)
}

// look has a service looked at again: wholly, or at what changed.
func (e *engine) look(name string, wholly bool) { e.stale[name] = e.stale[name] || wholly }

// refresh makes the duties of what changed.
func (e *engine) refresh(view facts.View) {
	for name, wholly := range e.stale {
		if s := e.services[name]; s != nil {
			e.survey(view, s, wholly)
		}
	}
	clear(e.stale)
	e.moved()
}

func (e *engine) drop(s *service) {
	keys := slices.Collect(maps.Keys(s.probed))
	e.assignment.Remove(keys...)
	e.verdicts.Remove(keys...)
	delete(e.services, s.name)
	delete(e.sets, s.set)
	e.cfg.Store.Commit(func(tx *facts.Tx) { tx.Forget(facts.VerdictsOf(e.cfg.Datacenter, s.name)) })
	e.moved()
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
