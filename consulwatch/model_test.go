package consulwatch

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/proto/subscribe"
)

// model is a Consul with one service: what it has at each index, and what it sends to one subscriber.
type model struct {
	*testing.T
	w       *streamWatch
	history []catalog // by index
	events  []*subscribe.Event
	at      uint64                     // how far the server is that the subscriber is on
	sent    []*subscribe.Event         // on its way to the subscriber
	had     []*subscribe.Event         // what the subscriber has of this stream
	wide    bool                       // a snapshot has the index of all that is written, not of the service
	denied  bool                       // the subscriber may not see anything
	reading *reading                   // on its way
	held    map[string]uint64          // what the store has, as it was born
	before  map[string]*facts.Instance // what the store has from before a restore, which is not what was born since
	there   map[string]bool            // which instances the store has
	known   uint64                     // what the store was known up to
	unread  bool                       // no reading since a restore that the end of the streams did not tell: what was known is of another time
	asked   uint64                     // when the reading that is on its way was made
	read    uint64                     // when the one was made that the store has, if nothing came between
	deaths  map[string][]uint64        // when each instance went
}

// catalog is the instances there are: the status and the index of each by ID.
type catalog map[string]modelRow

type modelRow struct {
	status string
	node   uint64
	own    uint64
	check  uint64
	born   uint64 // when it was last not there before
}

func newModel(t *testing.T) *model {
	m := &model{T: t, history: make([]catalog, 10), held: map[string]uint64{}, deaths: map[string][]uint64{}, there: map[string]bool{}, before: map[string]*facts.Instance{}}
	m.w = testWatch(facts.New())
	for i := range m.history {
		m.history[i] = catalog{}
	}
	m.subscribe(0)
	return m
}

func (m *model) now() uint64 { return uint64(len(m.history) - 1) }

func (m *model) truth() catalog { return m.history[m.now()] }

// write makes one commit of several changes.
func (m *model) write(change func(next catalog, index uint64)) {
	next, index := maps.Clone(m.truth()), m.now()+1
	change(next, index)
	var events []*subscribe.Event
	for _, id := range ids {
		before, was := m.truth()[id]
		after, is := next[id]
		switch {
		case is && (!was || before.check != after.check || before.own != after.own):
			events = append(events, event(index, subscribe.CatalogOp_Register, id, after))
		case was && !is:
			events = append(events, event(index, subscribe.CatalogOp_Deregister, id, modelRow{}))
			m.deaths[id] = append(m.deaths[id], index)
		}
	}
	for id, row := range next {
		if before, was := m.truth()[id]; was {
			row.born = before.born
		} else {
			row.born = index
		}
		next[id] = row
	}
	m.history = append(m.history, next)
	var e *subscribe.Event
	switch len(events) {
	case 0:
	case 1:
		e = events[0]
	default:
		e = &subscribe.Event{Index: index, Payload: &subscribe.Event_EventBatch{EventBatch: &subscribe.EventBatch{Events: events}}}
	}
	m.events = append(m.events, e)
	if m.at == index-1 {
		m.catchUp(1)
	}
}

// catchUp has the server that the subscriber is on hear of some commits.
func (m *model) catchUp(n int) {
	for ; n > 0 && m.at < m.now(); n-- {
		m.at++
		if e := m.events[m.at-10]; e != nil && !m.denied {
			m.sent = append(m.sent, e)
		}
	}
}

// newest is the index of the last event up to an index.
func (m *model) newest(at uint64) uint64 {
	newest := uint64(1)
	for _, e := range m.events[:at-9] {
		newest = max(newest, e.GetIndex())
	}
	return newest
}

var ids = []string{"a", "b", "c", "d"}

func event(index uint64, op subscribe.CatalogOp, id string, row modelRow) *subscribe.Event {
	u := &subscribe.ServiceHealthUpdate{Op: op, CheckServiceNode: &subscribe.CheckServiceNode{
		Node:    &subscribe.Node{Node: "n1", RaftIndex: &subscribe.RaftIndex{ModifyIndex: row.node}},
		Service: &subscribe.NodeService{Id: id, Service: "api", RaftIndex: &subscribe.RaftIndex{ModifyIndex: row.own}},
	}}
	if op == subscribe.CatalogOp_Register {
		u.CheckServiceNode.Checks = []*subscribe.HealthCheck{{
			Node: "n1", CheckId: "c", ServiceId: id, Status: row.status, RaftIndex: &subscribe.RaftIndex{ModifyIndex: row.check},
		}}
	}
	return &subscribe.Event{Index: index, Payload: &subscribe.Event_ServiceHealth{ServiceHealth: u}}
}

// subscribe begins on a server that knows all, with a snapshot that is some commits old.
func (m *model) subscribe(old uint64) {
	m.at = m.now()
	m.w.forget()
	m.sent, m.had, m.read = nil, nil, 0
	m.snapshot(m.at - min(old, m.at-9))
}

// abort ends the stream as Consul does when its state, or what the token may see, is not what it was.
func (m *model) abort(old uint64) {
	m.w.to.known, m.w.reset, m.known, m.unread = 0, true, 0, false
	m.subscribe(old)
}

// restore takes Consul back some commits. When the end of the streams does not say so, as when Consul has lost
// what it had and the connection with it, the next begins with another snapshot.
func (m *model) restore(commits uint64, seen bool) {
	to := m.now() - min(commits, m.now()-9)
	m.history, m.events = m.history[:to+1], m.events[:to-9]
	for id, died := range m.deaths {
		m.deaths[id] = slices.DeleteFunc(died, func(at uint64) bool { return at > to })
	}
	clear(m.held)
	clear(m.before)
	list, _ := m.w.to.store.View().Instances(apiHealth)
	for _, in := range list {
		m.before[in.Service.ID] = in
	}
	m.reading, m.known = nil, 0
	m.w.doubts.reading = false // it ends with the stream
	if seen {
		m.abort(0)
		return
	}
	m.at, m.read, m.unread = to, 0, true
	m.sent, m.had = []*subscribe.Event{newSnapshot()}, nil
	m.snapshot(to)
}

// snapshot sends what the server had at an index, and what has happened since as far as it knows.
func (m *model) snapshot(at uint64) {
	index := at
	if !m.wide {
		index = m.newest(at)
	}
	if !m.denied {
		for _, id := range ids {
			if row, ok := m.history[at][id]; ok {
				m.sent = append(m.sent, event(index, subscribe.CatalogOp_Register, id, row))
			}
		}
	}
	m.sent = append(m.sent, ended(index))
	if m.denied {
		return
	}
	for _, e := range m.events[at-9 : m.at-9] {
		if e != nil {
			m.sent = append(m.sent, e)
		}
	}
}

// resume goes on from the newest index that the subscriber has, on a server that lacks some commits, if
// that still can.
func (m *model) resume(behind uint64) {
	m.at = m.now() - min(behind, m.now()-9)
	index := m.w.resume()
	m.sent, m.had, m.read = nil, nil, 0
	switch {
	case index == 0:
		m.w.forget()
		m.snapshot(m.at)
	case index != m.newest(m.at) || m.denied:
		m.sent = append(m.sent, newSnapshot())
		m.snapshot(m.at)
	}
}

// deliver hands the subscriber what is on its way, up to n events.
func (m *model) deliver(n int) {
	for ; n > 0 && len(m.sent) > 0; n-- {
		e := m.sent[0]
		m.sent = m.sent[1:]
		if !e.GetNewSnapshotToFollow() {
			m.had = append(m.had, e)
		}
		if err := m.w.event(e); err != nil {
			m.Fatal(err)
		}
	}
}

// repeat hands the subscriber an event that it had before.
func (m *model) repeat(which int) {
	if len(m.had) > 0 {
		m.sent = append([]*subscribe.Event{m.had[which%len(m.had)]}, m.sent...)
		m.deliver(1)
	}
}

// settle is the quiet after a snapshot, or an end of patience: then what is on its way comes later.
func (m *model) settle(patient bool) {
	if m.w.view.ended && (len(m.sent) == 0 || !patient) {
		m.read = 0
		m.w.settled()
	}
}

// ask has Consul answer a reading, which arrives later.
func (m *model) ask() {
	if m.reading != nil {
		return
	}
	d := m.w.doubts
	d.cancel = func() {}
	d.begin()
	m.asked = m.now()
	m.reading = &reading{answer: m.answer(), seen: !m.denied}
	m.reading.answer.filtered = m.denied
}

func (m *model) answer() answer {
	list := []*api.ServiceEntry{}
	for _, id := range ids {
		if row, ok := m.truth()[id]; ok && !m.denied {
			list = append(list, &api.ServiceEntry{
				Node:    &api.Node{Node: "n1", ModifyIndex: row.node},
				Service: &api.AgentService{ID: id, Service: "api", ModifyIndex: row.own},
				Checks:  api.HealthChecks{{Node: "n1", CheckID: "c", ServiceID: id, Status: row.status, ModifyIndex: row.check}},
			})
		}
	}
	body, err := json.Marshal(list)
	if err != nil {
		m.Fatal(err)
	}
	return answer{body: body, index: m.newest(m.now())} // a service remembers when an instance last went
}

func (m *model) receive() {
	if m.reading != nil {
		r := *m.reading
		m.reading = nil
		stale := m.w.doubts.stale
		m.w.answered(r)
		m.unread = m.unread && stale
		if r.seen && !stale && m.w.live() {
			m.read = m.asked
		}
	}
}

func newStopped() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}
