package facts

import (
	"cmp"
	"slices"
)

// instancesRow is all instances of a topic: one row, because they are read together, and a service may
// have thousands of them. It does not change once it is committed.
type instancesRow struct {
	Topic string // Topic.String()
	// list is in the order of node and ID.
	list []*Instance
	// suspect says for each of the list whether it is suspect; nil when none is.
	suspect []bool
}

// instanceKey tells the instances of a topic apart.
type instanceKey struct{ node, id string }

func keyOfInstance(in *Instance) instanceKey {
	return instanceKey{rowKey(in.Node.Node), rowKey(in.Service.ID)}
}

func (k instanceKey) compare(other instanceKey) int {
	return cmp.Or(cmp.Compare(k.node, other.node), cmp.Compare(k.id, other.id))
}

// find returns where an instance is, or else would be.
func (r *instancesRow) find(k instanceKey) (int, bool) {
	return slices.BinarySearchFunc(r.list, k, func(in *Instance, k instanceKey) int {
		return keyOfInstance(in).compare(k)
	})
}

func (r *instancesRow) isSuspect(at int) bool { return r.suspect != nil && r.suspect[at] }

// state is that of all together: suspect when none but suspect ones are left.
func (r *instancesRow) state() State {
	if r.suspect == nil || slices.Contains(r.suspect, false) {
		return Present
	}
	return Suspect
}

func (r *instancesRow) replace(at int, in *Instance) {
	r.list[at] = in
	if r.suspect == nil {
		return
	}
	r.suspect[at] = false
	if !slices.Contains(r.suspect, true) {
		r.suspect = nil
	}
}

func (r *instancesRow) insert(at int, in *Instance) {
	r.list = slices.Insert(r.list, at, in)
	if r.suspect != nil {
		r.suspect = slices.Insert(r.suspect, at, false)
	}
}

func (r *instancesRow) remove(at int) {
	r.list = slices.Delete(r.list, at, at+1)
	if r.suspect != nil {
		r.suspect = slices.Delete(r.suspect, at, at+1)
	}
}

// Instances commits all instances of a topic of kind health, connect or proxies. The store keeps the
// instances; they must not change. A topic of registrations keeps no checks: a check that flips does
// not change what a proxy is.
func (tx *Tx) Instances(topic Topic, instances []*Instance, r Reading) Outcome {
	before := len(tx.changed)
	m := &merge{old: tx.instances(topic), reading: r, shares: tx.shares}
	m.run(topic, instances)
	if m.changed {
		tx.changed[ID{Topic: topic}] = struct{}{}
	}
	if m.changed || m.touched {
		tx.must(0, tx.txn.Insert(tableInstances, m.next))
	}
	tx.read(topic, r, len(instances) > 0)
	m.out.Changed = len(tx.changed) > before
	m.out.Unconfirmed = !tx.topic(topic).Complete
	return m.out
}

// PutInstance commits one instance of a topic; the others stay as they are. It reports whether any fact
// changed.
func (tx *Tx) PutInstance(topic Topic, in *Instance) bool {
	before := len(tx.changed)
	tx.putInstance(topic, stored(topic, in))
	if status := tx.topic(topic); !status.Known {
		status.Read, status.Known = true, true
		tx.setTopic(status)
		tx.changed[topic.status()] = struct{}{}
	}
	return len(tx.changed) > before
}

func (tx *Tx) putInstance(topic Topic, in *Instance) {
	row := tx.instances(topic)
	at, found := row.find(keyOfInstance(in))
	if !found {
		tx.own(row).insert(at, tx.shares.instance(in))
		tx.changed[ID{Topic: topic}] = struct{}{}
		return
	}
	next, differs := successor(row.list[at], in, false)
	if differs {
		tx.changed[ID{Topic: topic}] = struct{}{}
	}
	if next != row.list[at] {
		next = tx.shares.instance(next)
	} else if !row.isSuspect(at) {
		return
	}
	tx.own(row).replace(at, next)
}

// RemoveInstance commits that an instance was removed at an index; the others stay as they are. One
// that has a part of a higher index came back since, and stays. It reports whether the instance went.
func (tx *Tx) RemoveInstance(topic Topic, node, id string, index uint64) bool {
	row := tx.instances(topic)
	at, found := row.find(instanceKey{rowKey(node), rowKey(id)})
	if !found || row.list[at].newestIndex() > index {
		return false
	}
	tx.own(row).remove(at)
	tx.changed[ID{Topic: topic}] = struct{}{}
	return true
}

// stored is an instance as it is kept for a topic.
func stored(topic Topic, in *Instance) *Instance {
	if topic.Kind != TopicProxies {
		return sortChecks(in)
	}
	registration := *in
	registration.Checks = nil
	return &registration
}

// instances returns the row of a topic, which is empty when there is none.
func (v View) instances(topic Topic) *instancesRow {
	name := topic.String()
	if raw, _ := v.txn.First(tableInstances, indexID, name); raw != nil {
		return raw.(*instancesRow)
	}
	return &instancesRow{Topic: name}
}

func (tx *Tx) instances(topic Topic) *instancesRow { return View{txn: tx.txn}.instances(topic) }

// own returns a row that may be changed until the transaction ends: a copy, unless the transaction has
// made it.
func (tx *Tx) own(row *instancesRow) *instancesRow {
	if _, ours := tx.owned[row]; ours {
		return row
	}
	c := &instancesRow{Topic: row.Topic, suspect: slices.Clone(row.suspect)}
	c.list = append(make([]*Instance, 0, len(row.list)+1), row.list...)
	tx.must(0, tx.txn.Insert(tableInstances, c))
	if tx.owned == nil {
		tx.owned = map[*instancesRow]struct{}{}
	}
	tx.owned[c] = struct{}{}
	return c
}
