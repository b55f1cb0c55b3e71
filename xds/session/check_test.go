package session_test

import (
	"slices"
	"time"

	"github.com/catenary-mesh/catenary/xds/session"
)

// check holds a response against the rules, before the client sees it.
func (m *model) check(msg *message, overdue int) {
	if m.flights[msg.typ.Name] != nil {
		m.fail("%s: a second response while one is unanswered", msg.typ)
	}
	if m.nonces[msg.nonce] {
		m.fail("%s: nonce %s is used twice", msg.typ, msg.nonce)
	}
	m.nonces[msg.nonce] = true
	m.checkNames(msg)
	if m.timely && overdue > 0 {
		m.fail("%s: overdue although no time passed", msg.typ)
	}
	m.checkNeed(msg)
	switch msg.typ.URL {
	case session.ClusterURL:
		m.checkRemovedClusters(msg)
		m.sendClusters(msg)
	case session.ListenerURL, session.RouteURL:
		m.checkRefs(msg)
	}
}

func (m *model) checkNames(msg *message) {
	h := m.peer.types[msg.typ]
	seen := map[string]bool{}
	for _, c := range msg.contents {
		if seen[c.name] {
			m.fail("%s: %s is in the response twice", msg.typ, c.name)
		}
		if !h.wildcard && !h.names[c.name] && m.peer.form == session.Delta {
			m.fail("%s: %s was not asked for", msg.typ, c.name)
		}
		seen[c.name] = true
		m.checkLease(h, msg, c)
	}
	for _, name := range msg.removed {
		if seen[name] {
			m.fail("%s: %s is in the response twice", msg.typ, name)
		}
		seen[name] = true
		if m.offer.incomplete && m.holds(msg.typ, name) {
			m.fail("%s: %s is removed while the offer is incomplete", msg.typ, name)
		}
	}
}

// checkLease: virtual hosts are never sent, and a heartbeat is understood.
func (m *model) checkLease(h *half, msg *message, c content) {
	have, ok := h.have[c.name]
	switch {
	case msg.typ.URL == session.VirtualHostURL:
		m.fail("virtual host %s is sent", c.name)
	case (c.beat || c.ttl > 0) && !m.leases:
		m.fail("%s: %s has a TTL", msg.typ, c.name)
	case !c.beat:
	case !ok && !m.reconnected:
		m.fail("%s: a heartbeat of %s, which the client does not have", msg.typ, c.name)
	case m.peer.form == session.Delta && ok && have.version != c.version && !m.refusals:
		m.fail("%s: a heartbeat of %s=%s, where the client has %s", msg.typ, c.name, c.version, have.version)
	case m.peer.form == session.SotW && c.version != h.info:
		m.fail("%s: a heartbeat of version %s, where the client has %s", msg.typ, c.version, h.info)
	}
}

// holds reports whether the client holds a name and has no reason to give it up.
func (m *model) holds(t *session.Type, name string) bool {
	c, ok := m.peer.types[t].have[name]
	return ok && !c.absent && !m.excuses[t.Name+"/"+name]
}

// checkNeed fails when a response tells a client nothing that it does not have. After a refusal it
// is not certain what the client has.
func (m *model) checkNeed(msg *message) {
	h := m.peer.types[msg.typ]
	full := m.full(msg.typ)
	news := full && len(msg.contents) != len(h.have) || len(msg.contents)+len(msg.removed) == 0
	for _, c := range msg.contents {
		key := msg.typ.Name + "/" + c.name
		have, ok := h.have[c.name]
		if c.beat || (m.peer.form == session.SotW && have.ttl > 0) {
			news = true
			continue
		}
		isNew := !ok || have.version != c.version || have.absent || m.excuses[key]
		if !isNew && !full && !m.refusals {
			m.fail("%s: %s=%s is sent again without need", msg.typ, c.name, c.version)
		}
		news = news || isNew
		delete(m.excuses, key)
		if c.bad() && h.have[c.name].version == c.version {
			m.fail("%s: the client cannot have %s=%s", msg.typ, c.name, c.version)
		}
	}
	for _, name := range msg.removed {
		delete(m.excuses, msg.typ.Name+"/"+name)
	}
	if full && !news && !m.refusals && !m.anyExcuse(msg.typ) {
		m.fail("%s: %v is sent again without need", msg.typ, msg.contents)
	}
}

func (m *model) full(t *session.Type) bool {
	return m.peer.form == session.SotW && (t.URL == session.ClusterURL || t.URL == session.ListenerURL)
}

func (m *model) anyExcuse(t *session.Type) bool {
	for key := range m.excuses {
		if _, ok := cutType(key, t); ok {
			return true
		}
	}
	return len(m.nonces) <= len(m.types) // the first response of a type, after a reconnect too
}

func (m *model) sendClusters(msg *message) {
	listed := map[string]bool{}
	for _, c := range msg.contents {
		listed[c.name] = true
		m.sent[c.name] = true
		m.excuses["endpoint/"+c.name] = true
	}
	for name := range m.sent {
		if (m.full(msg.typ) && !listed[name]) || slices.Contains(msg.removed, name) {
			delete(m.sent, name)
		}
	}
}

// checkRefs: no route goes before its clusters, nor before they are accepted unless a second passed.
func (m *model) checkRefs(msg *message) {
	clusters := m.peer.types[clusterType()]
	if !clusters.asked || !clusters.wildcard || (m.leases && m.reconnected) {
		return // what the client brought along may have expired
	}
	for _, c := range msg.contents {
		if have := m.peer.types[msg.typ].have[c.name]; have.version == c.version {
			continue // of an earlier stream, or in a full set
		}
		for _, ref := range c.refs {
			r, state := m.offer.Lookup(clusterType(), ref)
			if state != session.Present || contentOf(r.Body).bad() || m.refusals {
				continue
			}
			if _, has := clusters.have[ref]; !m.sent[ref] && !has {
				m.fail("%s %s goes before its cluster %s", msg.typ, c.name, ref)
			}
			f := m.flights["cluster"]
			if _, has := clusters.have[ref]; f != nil && m.now.Sub(f.sentAt) < time.Second && m.newIn(f, ref) && !has {
				m.fail("%s %s does not wait for its cluster %s", msg.typ, c.name, ref)
			}
		}
	}
}

func (m *model) newIn(f *message, name string) bool {
	for _, c := range f.contents {
		if c.name == name {
			return m.peer.types[f.typ].have[name].version != c.version
		}
	}
	return false
}

// checkRemovedClusters: no cluster goes that a route or listener of the client refers to, but where what
// takes its place was sent and time passed. In SotW a refused cluster that was never accepted can only be
// left out.
func (m *model) checkRemovedClusters(msg *message) {
	if m.blind || (m.refusals && m.full(msg.typ)) || !m.peer.types[msg.typ].wildcard {
		return
	}
	removed := msg.removed
	if m.full(msg.typ) {
		for name := range m.peer.types[msg.typ].have {
			if !slices.ContainsFunc(msg.contents, func(c content) bool { return c.name == name }) {
				removed = append(removed, name)
			}
		}
	}
	for _, name := range removed {
		if _, has := m.peer.types[msg.typ].have[name]; !has {
			continue
		}
		for _, t := range []*session.Type{typeOf("listener"), typeOf("route")} {
			for holder, c := range m.peer.types[t].have {
				if slices.Contains(c.refs, name) && m.sees(t) && (m.timely || !m.moved(t, holder, name)) {
					m.fail("cluster %s goes while %s %s refers to it", name, t, holder)
				}
			}
		}
	}
}

// moved reports whether a response on its way takes a reference to a cluster away from the client.
func (m *model) moved(t *session.Type, holder, cluster string) bool {
	f := m.flights[t.Name]
	if f == nil {
		return false
	}
	i := slices.IndexFunc(f.contents, func(c content) bool { return c.name == holder })
	if i < 0 {
		return m.full(t) || slices.Contains(f.removed, holder)
	}
	return !slices.Contains(f.contents[i].refs, cluster)
}

// sees reports whether the client can hear that a name is gone: SotW says so in full sets and in
// empty assignments only.
func (m *model) sees(t *session.Type) bool {
	return m.peer.form == session.Delta || m.full(t) || t.URL == session.EndpointURL
}
