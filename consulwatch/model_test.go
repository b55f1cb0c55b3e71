package consulwatch

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/hashicorp/go-hclog"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/proto/subscribe"
)

// model is a Consul with one service: what it has at each index, and what it sends to one subscriber.
type model struct {
	*testing.T
	w       *streamWatch
	history []catalog // by index
	events  []*subscribe.Event
	sent    []*subscribe.Event // on its way to the subscriber
	denied  bool               // the subscriber may not see anything
	reading *reading           // on its way
	held    map[string]uint64  // what the store has, as it was born
	asked   uint64             // when the reading that is on its way was made
	read    uint64             // when the one was made that the store has, if nothing came between
	died    map[string]uint64  // when each instance last went
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
	s := &Source{
		log: hclog.NewNullLogger(), metrics: noMetrics{}, limits: Limits{}.withDefaults(),
		away: map[facts.Topic]struct{}{}, veiled: map[facts.Topic]string{}, polls: map[facts.Topic]string{},
	}
	to := &sink{source: s, store: facts.New(), topic: apiHealth}
	m := &model{T: t, history: make([]catalog, 10), held: map[string]uint64{}, died: map[string]uint64{}}
	m.w = &streamWatch{source: s, to: to, retry: exponential(1, 1), doubts: s.newDoubts(to)}
	m.w.settle = newStopped()
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
			m.died[id] = index
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
	if e != nil && !m.denied {
		m.sent = append(m.sent, e)
	}
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

// subscribe sends a snapshot that is some commits old, and what has happened since.
func (m *model) subscribe(old uint64) {
	m.w.forget()
	m.sent, m.read = nil, 0
	m.snapshot(m.now() - min(old, m.now()-9))
}

func (m *model) snapshot(at uint64) {
	if !m.denied {
		for _, id := range ids {
			if row, ok := m.history[at][id]; ok {
				m.sent = append(m.sent, event(at, subscribe.CatalogOp_Register, id, row))
			}
		}
	}
	m.sent = append(m.sent, &subscribe.Event{Index: at, Payload: &subscribe.Event_EndOfSnapshot{EndOfSnapshot: true}})
	if m.denied {
		return
	}
	for _, e := range m.events[at-9:] {
		if e != nil {
			m.sent = append(m.sent, e)
		}
	}
}

// resume goes on from the newest index that the subscriber has, if Consul still can.
func (m *model) resume() {
	index := m.w.resume()
	newest := uint64(0)
	for _, e := range m.events {
		newest = max(newest, e.GetIndex())
	}
	m.sent, m.read = nil, 0
	switch {
	case index == 0:
		m.subscribe(0)
	case index != newest || m.denied:
		m.sent = append(m.sent, &subscribe.Event{Payload: &subscribe.Event_NewSnapshotToFollow{NewSnapshotToFollow: true}})
		m.snapshot(m.now())
	}
}

// deliver hands the subscriber what is on its way, up to n events.
func (m *model) deliver(n int) {
	for ; n > 0 && len(m.sent) > 0; n-- {
		e := m.sent[0]
		m.sent = m.sent[1:]
		if err := m.w.event(e); err != nil {
			m.Fatal(err)
		}
	}
}

// settle is the quiet after a snapshot.
func (m *model) settle() {
	if m.w.view.ended && len(m.sent) == 0 {
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
	d.reading, d.stale, d.rung, d.since, d.cancel = true, false, false, map[instanceKey]effect{}, func() {}
	m.asked = m.now()
	m.reading = &reading{answer: m.answer(), seen: !m.denied}
	m.reading.answer.filtered = m.denied
}

func (m *model) answer() answer {
	list := []*api.ServiceEntry{}
	newest := uint64(1)
	for _, id := range ids {
		if row, ok := m.truth()[id]; ok && !m.denied {
			newest = max(newest, row.node, row.own, row.check)
			list = append(list, &api.ServiceEntry{
				Node:    &api.Node{Node: "n1", ModifyIndex: row.node},
				Service: &api.AgentService{ID: id, Service: "api", ModifyIndex: row.own},
				Checks:  api.HealthChecks{{Node: "n1", CheckID: "c", ServiceID: id, Status: row.status, ModifyIndex: row.check}},
			})
		}
	}
	for _, e := range m.events { // a service remembers when an instance last went
		if !m.denied {
			newest = max(newest, e.GetIndex())
		}
	}
	body, err := json.Marshal(list)
	if err != nil {
		m.Fatal(err)
	}
	return answer{body: body, index: newest}
}

func (m *model) receive() {
	if m.reading != nil {
		r := *m.reading
		m.reading = nil
		stale := m.w.doubts.stale
		m.w.answered(r)
		if r.seen && !stale && m.w.live() {
			m.read = m.asked
		}
	}
}

// check looks that nothing was lost: what Consul has had since the store has it is in the store.
func (m *model) check(step string) {
	list, _ := m.w.to.store.View().Instances(apiHealth)
	has := map[string]uint64{}
	for _, in := range list {
		has[in.Service.ID] = in.Service.ModifyIndex
	}
	for id, born := range m.held {
		if row, there := m.truth()[id]; there && row.born == born && has[id] == 0 {
			m.Fatalf("after %s: %s is lost, and Consul has it: %v", step, id, m.truth())
		}
	}
	for id := range has {
		if _, there := m.truth()[id]; !there && m.died[id] <= m.read {
			m.Fatalf("after %s: %s is back, which went at %d, before the reading at %d", step, id, m.died[id], m.read)
		}
	}
	clear(m.held)
	for id, row := range m.truth() {
		if has[id] >= row.born {
			m.held[id] = row.born
		}
	}
}

// converge ends all trouble and looks that the store has the truth. Rights that come back end the stream;
// else it goes on as it is.
func (m *model) converge() {
	if m.denied {
		m.denied = false
		m.subscribe(0)
	}
	m.receive()
	m.deliver(1 << 20)
	m.settle()
	if m.w.doubts.raised {
		m.ask()
		m.receive()
	}
	if m.w.doubts.raised {
		m.Fatalf("there is still doubt: %+v", m.w.doubts)
	}
	var got, want []string
	list, state := m.w.to.store.View().Instances(apiHealth)
	for _, in := range list {
		got = append(got, fmt.Sprintf("%s:%s", in.Service.ID, in.Checks[0].Status))
	}
	for _, id := range ids {
		if row, ok := m.truth()[id]; ok {
			want = append(want, fmt.Sprintf("%s:%s", id, row.status))
		}
	}
	if !slices.Equal(got, want) {
		m.Fatalf("the store has %v (%s), Consul %v", got, state, want)
	}
}

// step does what one byte says.
func (m *model) step(b byte) {
	id, arg := ids[b>>4&3], int(b>>6)
	statuses := []string{"passing", "warning", "critical", "passing"}
	switch b & 15 {
	case 0, 1:
		m.write(func(next catalog, i uint64) { next[id] = modelRow{status: statuses[arg], node: i, own: i, check: i} })
	case 2, 3:
		m.write(func(next catalog, i uint64) {
			if row, ok := next[id]; ok {
				row.status, row.check = statuses[arg], i
				next[id] = row
			}
		})
	case 4, 5:
		m.write(func(next catalog, _ uint64) { delete(next, id) })
	case 6: // a node goes, or one comes
		m.write(func(next catalog, i uint64) {
			if arg > 1 {
				clear(next)
				return
			}
			for _, id := range ids {
				next[id] = modelRow{status: statuses[arg], node: i, own: i, check: i}
			}
		})
	case 7, 8, 9:
		m.deliver(1 + arg)
	case 10:
		m.settle()
	case 11:
		m.ask()
	case 12:
		m.receive()
	case 13: // aborted, and the snapshot is some commits old
		m.subscribe(uint64(b >> 4))
	case 14:
		m.resume()
	case 15: // aborted because the rights are others
		m.denied = arg > 1
		m.subscribe(0)
	}
	m.check(fmt.Sprintf("%#x", b))
}

// FuzzEvents holds the following of events against a model of Consul: whatever order writes, deliveries,
// readings, stale snapshots, resumptions and losses of rights come in, nothing that is there is ever
// lost, nothing that is known to be gone comes back, and in the end the store has what Consul has.
func FuzzEvents(f *testing.F) {
	f.Add([]byte{0x00, 0x10, 0x07, 0x47, 0x0a, 0x04, 0x07})
	f.Add([]byte{0x00, 0x0b, 0x10, 0xc7, 0x0a, 0x0c, 0x04, 0x00, 0x3d, 0xc7, 0x0a, 0x8f, 0xc7, 0x0a, 0x0b, 0x0c})
	f.Add([]byte{0x06, 0xc7, 0xc7, 0x0a, 0x0e, 0x86, 0x46, 0x0e, 0xc7, 0x0a, 0x0b, 0x82, 0x07, 0x0c})
	f.Add([]byte{0x07, 0x0a, 0x00, 0x04, 0x0b, 0x0c, 0x07, 0x07}) // a reading that is ahead of the events
	f.Fuzz(func(t *testing.T, steps []byte) {
		m := newModel(t)
		for _, b := range steps[:min(len(steps), 200)] {
			m.step(b)
		}
		m.converge()
	})
}

func newStopped() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}
