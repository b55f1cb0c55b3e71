package facts

import "slices"

// merge makes the next row of a topic out of the one before and a reading.
type merge struct {
	old     *instancesRow
	reading Reading
	shares  *shares
	next    *instancesRow
	out     Outcome
	// changed means that the next row has other content, touched that it has other indexes or states.
	changed, touched bool
}

// keyedInstance has the key at hand, because many are compared.
type keyedInstance struct {
	key instanceKey
	in  *Instance
}

func (m *merge) run(topic Topic, instances []*Instance) {
	m.next = &instancesRow{Topic: m.old.Topic, list: make([]*Instance, 0, max(len(instances), len(m.old.list)))}
	at := 0
	for _, row := range m.sorted(topic, instances) {
		for at < len(m.old.list) && keyOfInstance(m.old.list[at]).compare(row.key) < 0 {
			m.miss(at)
			at++
		}
		if at < len(m.old.list) && keyOfInstance(m.old.list[at]) == row.key {
			m.succeed(at, row.in)
			at++
			continue
		}
		m.add(m.shares.instance(row.in), false)
		m.changed = true
	}
	for ; at < len(m.old.list); at++ {
		m.miss(at)
	}
}

// sorted returns the instances of the reading in order. Of two with one key the latter follows the
// former.
func (m *merge) sorted(topic Topic, instances []*Instance) []keyedInstance {
	rows := make([]keyedInstance, 0, len(instances))
	for _, in := range instances {
		rows = append(rows, keyedInstance{keyOfInstance(in), stored(topic, in)})
	}
	slices.SortStableFunc(rows, func(a, b keyedInstance) int { return a.key.compare(b.key) })
	distinct := rows[:0]
	for _, row := range rows {
		if n := len(distinct); n > 0 && distinct[n-1].key == row.key {
			distinct[n-1].in, _ = successor(distinct[n-1].in, row.in, m.reading.Reset)
			continue
		}
		distinct = append(distinct, row)
	}
	return distinct
}

// succeed puts an instance in the place of the one before.
func (m *merge) succeed(at int, in *Instance) {
	prev := m.old.list[at]
	if !m.reading.Reset && older(prev, in) {
		m.out.Older++
	}
	next, differs := successor(prev, in, m.reading.Reset)
	m.changed = m.changed || differs
	m.touched = m.touched || next != prev || m.old.isSuspect(at)
	if next != prev {
		next = m.shares.instance(next)
	}
	m.add(next, false)
}

// miss drops an instance that the reading does not have, as far as the reading is trusted.
func (m *merge) miss(at int) {
	if m.reading.Confirmed {
		m.changed = true
		return
	}
	m.out.Suspects++
	m.touched = m.touched || !m.old.isSuspect(at)
	m.add(m.old.list[at], true)
}

func (m *merge) add(in *Instance, suspect bool) {
	m.next.list = append(m.next.list, in)
	switch {
	case m.next.suspect != nil:
		m.next.suspect = append(m.next.suspect, suspect)
	case suspect:
		m.next.suspect = make([]bool, len(m.next.list), cap(m.next.list))
		m.next.suspect[len(m.next.list)-1] = true
	}
}
