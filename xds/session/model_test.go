package session_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/xds/session"
)

// model drives one stream by random steps and checks every response: what a client that follows the
// protocol ends with is what the offer says, in whatever order things happen.
type model struct {
	t     *testing.T
	src   source
	offer *offer
	peer  *peer
	now   time.Time
	wake  time.Time // as the last turn said
	seen  bool      // whether the last turn found the offer complete
	steps []string
	types []*session.Type // that the stream uses

	versions int
	timely   bool // time stands still: nothing may go by the clock
	refusals bool
	leases   bool // some resources have a TTL
	// blind: after a reconnect the server cannot know what a full set removes, nor what an old
	// listener refers to that stays in force by a refusal.
	blind bool
	// reconnected: the client brought along what the server may not know of.
	reconnected bool
	gone        map[string]bool // type/name that the offer did not have at some time

	nonces  map[string]bool
	sent    map[string]bool     // clusters sent and not removed since
	excuses map[string]bool     // type/name that may be sent though the client has it
	flights map[string]*message // by type
}

func newModel(t *testing.T, data []byte) *model {
	m := &model{t: t, src: source{data}, offer: newOffer(), now: time.Unix(1e9, 0), types: classic(), seen: true, gone: map[string]bool{}}
	first := m.src.next(256)
	m.timely, m.refusals = m.src.next(2) == 0, m.src.next(2) == 0
	var cfg session.Config
	cfg.Form = session.Form(first % 2)
	switch kind := first / 2 % 4; kind {
	case 0: // the types that carry traffic
	case 1:
		m.types = session.Types()
	case 2:
		cfg.Only = classic()[first/8%4]
		m.types = []*session.Type{cfg.Only}
	case 3:
		m.leases, m.timely = true, false
	}
	m.peer = newPeer(cfg, m.leases)
	for _, t := range session.Types() {
		wildcard := t.URL == session.ClusterURL || t.URL == session.ListenerURL
		m.peer.types[t].wildcard = wildcard && m.src.next(8) < 7
	}
	m.begin()
	return m
}

// begin forgets what belongs to one stream.
func (m *model) begin() {
	m.nonces, m.sent = map[string]bool{}, map[string]bool{}
	m.excuses, m.flights = map[string]bool{}, map[string]*message{}
}

func (m *model) note(format string, args ...any) {
	m.steps = append(m.steps, fmt.Sprintf(format, args...))
}

func (m *model) fail(format string, args ...any) {
	m.t.Helper()
	steps := m.steps
	if len(steps) > 400 {
		steps = steps[len(steps)-400:]
	}
	for _, step := range steps {
		m.t.Log(step)
	}
	m.t.Fatalf(format, args...)
}

func (m *model) must(err error) {
	m.t.Helper()
	if err != nil {
		m.fail("refused a request: %v", err)
	}
}

// names has one that is part of another, and one that no wildcard stands for.
func (m *model) name() string { return []string{"aa", "bb", "cc", "bbx", "dd.x"}[m.src.next(5)] }

func (m *model) typ() *session.Type { return m.types[m.src.next(len(m.types))] }

// classic are the types that carry traffic.
func classic() []*session.Type {
	return []*session.Type{typeOf("cluster"), typeOf("endpoint"), typeOf("listener"), typeOf("route")}
}

func (m *model) run() {
	for len(m.src.data) > 0 {
		m.step()
		m.turn()
	}
	m.settle()
}

func (m *model) step() {
	switch m.src.next(16) {
	case 0, 1, 2, 3:
		m.change(m.typ(), m.name())
	case 4:
		m.vanish(m.typ(), m.name())
	case 5, 6:
		t, name := m.typ(), m.name()
		m.note("subscribe %s %s", t, name)
		m.excuses[t.Name+"/"+name] = true
		m.must(m.peer.subscribe(m.now, t, name))
	case 7:
		t, name := m.typ(), m.name()
		m.note("unsubscribe %s %s", t, name)
		m.excuses[t.Name+"/"+name] = true
		m.must(m.peer.unsubscribe(m.now, t, name))
	case 8, 9, 10, 11:
		m.deliver()
	case 12:
		m.offer.incomplete = !m.offer.incomplete
		m.note("incomplete: %v", m.offer.incomplete)
	case 13:
		name := m.name()
		m.note("unknown endpoint %s", name)
		m.offer.unknown["endpoint/"+name] = true
		m.dirty("endpoint/" + name)
	case 14:
		if !m.timely {
			m.pass(300 * time.Millisecond)
		}
	case 15:
		m.rarely()
	}
}

func (m *model) rarely() {
	if m.src.next(4) > 0 {
		m.note("dirty all")
		m.peer.s.DirtyAll()
		return
	}
	m.note("reconnect")
	m.reconnected = true
	m.begin()
	clusters := m.peer.types[clusterType()]
	asksClusters := clusters.asked && (clusters.wildcard || len(clusters.names) > 0)
	for t, h := range m.peer.types {
		for name := range h.have {
			// A version of the state of the world does not say what the client has, and endpoints that are
			// asked for before clusters may be waited for.
			m.excuses[t.Name+"/"+name] = m.peer.form == session.SotW || t.URL == session.EndpointURL && !asksClusters
		}
	}
	m.blind = m.peer.form == session.SotW || m.refusals
	m.wake, m.seen = time.Time{}, true
	m.must(m.peer.reconnect(m.now))
}

func (m *model) dirty(key string) {
	for _, t := range session.Types() {
		if rest, ok := cutType(key, t); ok {
			m.peer.s.Dirty(t, rest)
			m.gone[key] = m.gone[key] || m.offer.resources[key] == nil
		}
	}
}

func cutType(key string, t *session.Type) (string, bool) {
	if len(key) > len(t.Name) && key[:len(t.Name)+1] == t.Name+"/" {
		return key[len(t.Name)+1:], true
	}
	return "", false
}

// change puts a new version, with refs to clusters that are there.
func (m *model) change(t *session.Type, name string) {
	m.versions++
	text := fmt.Sprintf("%s/%s=%d", t.Name, name, m.versions)
	if m.refusals && m.src.next(6) == 0 {
		text += "!"
	}
	if m.leases && m.src.next(2) == 0 {
		text += "~1s"
	}
	if t.URL == session.RouteURL || t.URL == session.ListenerURL {
		if clusters := m.offer.Names(clusterType()); len(clusters) > 0 {
			text += ">" + clusters[m.src.next(len(clusters))]
		}
	}
	m.note("offer %s", text)
	m.offer.put(text)
	m.dirty(t.Name + "/" + name)
}

// vanish takes a name away, with the routes and listeners that refer to it.
func (m *model) vanish(t *session.Type, name string) {
	m.note("gone %s/%s", t.Name, name)
	delete(m.offer.resources, t.Name+"/"+name)
	delete(m.offer.unknown, t.Name+"/"+name)
	m.dirty(t.Name + "/" + name)
	if m.full(t) {
		m.excuses[t.Name+"/"+name] = true // that it is absent is said by a set without it
	}
	if t.URL != session.ClusterURL {
		return
	}
	for key, r := range m.offer.resources {
		if r.Type != t && slices.Contains(r.Refs, name) {
			m.note("gone %s", key)
			delete(m.offer.resources, key)
			m.dirty(key)
			m.excuses[key] = true
		}
	}
}

func (m *model) deliver() {
	if len(m.peer.wire) == 0 {
		return
	}
	msg := m.peer.wire[0]
	partly, names := m.src.next(2) == 0, m.src.next(2) == 0
	m.note("answer %s %v -%v", msg.typ, msg.contents, msg.removed)
	if m.reconnected && slices.ContainsFunc(msg.contents, func(c content) bool { return c.beat }) {
		for _, c := range msg.contents { // it refuses all for the heartbeat of one that expired meanwhile
			m.excuses[msg.typ.Name+"/"+c.name] = true
		}
	}
	delete(m.flights, msg.typ.Name)
	m.must(m.peer.answer(m.now, partly, names))
}

func (m *model) turn() {
	quiet := !m.peer.s.Due() && m.seen == !m.offer.incomplete && (m.wake.IsZero() || m.now.Before(m.wake))
	responses, wake := m.peer.s.Turn(m.now, m.offer)
	m.wake, m.seen = wake, !m.offer.incomplete
	if !wake.IsZero() && !wake.After(m.now) {
		m.fail("wakes at once, which is a busy loop")
	}
	if quiet && len(responses) > 0 {
		m.fail("a turn that was not due sends %s", responses[0].Type)
	}
	for i := range responses {
		msg := receive(m.peer.form, &responses[i], m.now)
		m.note("%s: %v -%v", msg.typ, msg.contents, msg.removed)
		m.check(msg, responses[i].Overdue)
		m.flights[msg.typ.Name] = msg
		m.peer.wire = append(m.peer.wire, msg)
	}
}

// pass lets time pass, with a turn whenever one was asked for. A client whose resources expire answers
// before, and loses none.
func (m *model) pass(d time.Duration) {
	m.note("pass %s", d)
	end := m.now.Add(d)
	for m.leases {
		for len(m.peer.wire) > 0 {
			m.deliver()
			m.turn()
		}
		if m.wake.IsZero() || m.wake.After(end) {
			break
		}
		m.now = m.wake
		m.turn()
	}
	m.now = end
	for t, h := range m.peer.types {
		for name, c := range h.have {
			if !c.ends.IsZero() && !c.ends.After(m.now) {
				m.expire(t, name)
			}
		}
	}
}

// expire has the client drop a resource: one that was gone once, or of which the server cannot know that
// the client has it, because it brought it along or took it with a response that it refused.
func (m *model) expire(t *session.Type, name string) {
	m.note("expires: %s/%s", t, name)
	if !m.gone[t.Name+"/"+name] && !m.reconnected && !m.refusals {
		m.fail("%s %s expires at the client", t, name)
	}
	delete(m.peer.types[t].have, name)
	m.excuses[t.Name+"/"+name] = true
}

// settle lets everything come to rest and compares.
func (m *model) settle() {
	m.note("settle")
	m.offer.incomplete, m.timely = false, false
	for key := range m.offer.unknown {
		delete(m.offer.unknown, key)
		m.dirty(key)
	}
	m.turn()
	// Removals of one kind wait for those of another, a second each at most.
	for range 2 * len(session.Types()) {
		for round := 0; len(m.peer.wire) > 0; round++ {
			if round > 200 {
				m.fail("never comes to rest")
			}
			m.deliver()
			m.turn()
		}
		m.pass(time.Second)
		m.turn()
	}
	for t, h := range m.peer.types {
		if h.asked {
			m.compare(t, h)
		}
	}
}

func (m *model) compare(t *session.Type, h *half) {
	want := map[string]bool{}
	for name := range h.names {
		want[name] = true
	}
	if h.wildcard {
		for _, name := range m.offer.Names(t) {
			want[name] = true
		}
	}
	for name := range want {
		r, state := m.offer.Lookup(t, name)
		if t.URL == session.VirtualHostURL {
			state = session.Absent
		}
		have, ok := h.have[name]
		switch {
		case state == session.Absent && ok && !have.absent && !m.kept(t) && m.sees(t):
			m.fail("%s %s: has %v, want nothing", t, name, have)
		case state == session.Present && contentOf(r.Body).bad():
		case state == session.Present && have.version != r.Version:
			m.fail("%s %s: has %q, want %q", t, name, have.version, r.Version)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(h.have)) {
		if !want[name] && !m.kept(t) {
			m.fail("%s %s: has %v, which it is not to have", t, name, h.have[name])
		}
	}
}

// kept reports whether a refused resource may keep an older one in force, with the
// clusters it refers to and their endpoints.
func (m *model) kept(t *session.Type) bool {
	if m.full(t) && m.blind && m.refusals {
		return true // a refused first full set removes nothing, and is not sent again
	}
	if t.URL != session.ClusterURL && t.URL != session.EndpointURL {
		return false
	}
	for _, r := range m.offer.resources {
		if contentOf(r.Body).bad() && (r.Type.URL == session.ListenerURL || r.Type.URL == session.RouteURL) {
			return true
		}
	}
	return false
}

func clusterType() *session.Type { return typeOf("cluster") }
