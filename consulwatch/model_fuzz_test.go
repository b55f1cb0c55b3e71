package consulwatch

import (
	"fmt"
	"slices"
	"testing"
)

// check looks that nothing was lost, and nothing came back: what Consul has had since the store has it is in
// the store, and what the store lacked when it was known up to where it went is not.
func (m *model) check(step string) {
	list, _ := m.w.to.store.View().Instances(apiHealth)
	has := map[string]uint64{}
	old := map[string]bool{}
	for _, in := range list {
		id := in.Service.ID
		has[id], old[id] = in.Service.ModifyIndex, m.before[id] == in
	}
	for id, born := range m.held {
		if row, there := m.truth()[id]; there && row.born == born && has[id] == 0 {
			m.Fatalf("after %s: %s is lost, and Consul has it: %v", step, id, m.truth())
		}
	}
	for id, own := range has {
		died := m.death(id, own)
		if died == 0 {
			continue
		}
		if died <= m.read {
			m.Fatalf("after %s: %s is there, which went at %d, before the reading at %d", step, id, died, m.read)
		}
		if !m.there[id] && died <= m.known {
			m.Fatalf("after %s: %s is back, which went at %d, and all was known up to %d", step, id, died, m.known)
		}
	}
	clear(m.there)
	for id := range has {
		m.there[id] = true
	}
	m.known = 0
	if !m.unread {
		m.known = m.w.to.known
	}
	clear(m.held)
	for id, row := range m.truth() {
		if has[id] >= row.born && !old[id] {
			m.held[id] = row.born
		}
	}
}

// death is when an instance went that was registered at an index; 0 when it has not.
func (m *model) death(id string, own uint64) uint64 {
	for _, died := range m.deaths[id] {
		if died > own {
			return died
		}
	}
	return 0
}

// converge ends all trouble and looks that the store has the truth. Rights that come back end the stream;
// else it goes on as it is.
func (m *model) converge() {
	if m.denied {
		m.denied = false
		m.abort(0)
	}
	m.receive()
	m.catchUp(1 << 20)
	m.deliver(1 << 20)
	m.settle(true)
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
	switch b & 15 {
	case 0, 2, 4, 6:
		m.writeOne(b&15, id, []string{"passing", "warning", "critical", "passing"}[arg])
	case 1:
		m.repeat(int(b >> 4))
	case 3: // the connection is lost, and the next server is behind
		m.resume(uint64(b >> 4))
	case 5:
		m.settle(false)
	case 7, 8:
		m.deliver(1 + arg)
	case 9:
		m.catchUp(1 + arg)
	case 10:
		m.settle(true)
	case 11:
		m.ask()
	case 12:
		m.receive()
	case 13: // the snapshot is some commits old
		m.subscribe(uint64(b >> 4))
	case 14:
		m.restore(uint64(b>>4&3), arg > 0)
	case 15: // aborted because the rights are others
		m.denied = arg > 1
		m.abort(0)
	}
	m.check(fmt.Sprintf("%#x", b))
}

// writeOne makes a commit.
func (m *model) writeOne(what byte, id, status string) {
	m.write(func(next catalog, i uint64) {
		row, ok := next[id]
		switch {
		case what == 0:
			next[id] = modelRow{status: status, node: i, own: i, check: i}
		case what == 2 && ok:
			row.status, row.check = status, i
			next[id] = row
		case what == 4:
			delete(next, id)
		case what == 6 && status == "critical": // the node goes
			clear(next)
		case what == 6: // all of a node come
			for _, id := range ids {
				next[id] = modelRow{status: status, node: i, own: i, check: i}
			}
		}
	})
}

// FuzzEvents holds the following of events against a model of Consul: whatever order writes, deliveries,
// repetitions, readings, stale snapshots, servers that are behind, resumptions, restores and losses of rights
// come in, nothing that is there is ever lost, nothing that is known to be gone comes back, but by a reset until
// the next reading, and in the end the store has what Consul has.
func FuzzEvents(f *testing.F) {
	f.Add([]byte{0x00, 0x10, 0x07, 0x47, 0x0a, 0x04, 0x07})
	f.Add([]byte{0x00, 0x0b, 0x10, 0xc7, 0x0a, 0x0c, 0x04, 0x00, 0x3d, 0xc7, 0x0a, 0x8f, 0xc7, 0x0a, 0x0b, 0x0c})
	f.Add([]byte{0x06, 0xc7, 0xc7, 0x0a, 0x0e, 0x86, 0x46, 0x0e, 0xc7, 0x0a, 0x0b, 0x82, 0x07, 0x0c})
	f.Add([]byte{0x07, 0x0a, 0x00, 0x04, 0x0b, 0x0c, 0x07, 0x07})                               // a reading that is ahead of the events
	f.Add([]byte{0x00, 0x04, 0x0b, 0x0c, 0x13, 0xc7, 0x0a})                                     // a server that has what is gone
	f.Add([]byte{0x00, 0x04, 0x0b, 0x0c, 0x23, 0xc7, 0x0a, 0x09, 0x07})                         // one that tells how it came
	f.Add([]byte{0x00, 0x04, 0xc7, 0x0a, 0x01, 0x11, 0x21})                                     // what is told twice
	f.Add([]byte{0x00, 0x0b, 0x0c, 0x04, 0x0b, 0x0c, 0x2e, 0xc7, 0x0a, 0x0b, 0x0c, 0x00, 0xc7}) // a restore that only a reading shows
	f.Fuzz(func(t *testing.T, steps []byte) {
		m := newModel(t)
		m.wide = len(steps)%2 == 1
		for _, b := range steps[:min(len(steps), 200)] {
			m.step(b)
		}
		m.converge()
	})
}
