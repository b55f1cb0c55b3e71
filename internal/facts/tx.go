package facts

import (
	"fmt"

	"github.com/hashicorp/go-memdb"

	"github.com/catenary-mesh/catenary/chain"
)

// Reading says how far an answer of the source may be trusted about what it does not contain.
type Reading struct {
	// Confirmed means that what is missing does not exist: nothing was hidden from us, and the
	// answer was not read from a stale copy.
	Confirmed bool
	// Reset means that the source may have been restored to an earlier state: lower indexes count.
	Reset bool
}

// Outcome is what committing a reading did.
type Outcome struct {
	// Changed reports whether any fact changed.
	Changed bool
	// Older is the number of rows of which a part has a lower index than before, and was not taken. The
	// source should find out whether it was restored.
	Older int
	// Suspects is the number of facts that were missing from an unconfirmed reading and are held.
	// The source should confirm them.
	Suspects int
	// Unconfirmed reports that the topic has never had a confirmed reading: what is missing from it
	// is unknown.
	Unconfirmed bool
}

// Tx is a transaction on the store, valid within the function given to [Store.Commit].
type Tx struct {
	txn     *memdb.Txn
	changed map[ID]struct{}
	owned   map[*instancesRow]struct{} // made by this transaction
	shares  *shares
}

// Entries commits all config entries of a kind. The store keeps the entries; they must not change.
func (tx *Tx) Entries(kind chain.Kind, entries []chain.Entry, r Reading) Outcome {
	topic := Entries(kind)
	rows := make([]row, 0, len(entries))
	for _, e := range entries {
		rows = append(rows, &entryRow{Topic: topic.String(), Key: rowKey(e.Head().Name), Entry: e, State: Present})
	}
	return tx.put(tableEntries, topic, rows, r)
}

// Services commits the names of all services of a datacenter.
func (tx *Tx) Services(datacenter string, names []string, r Reading) Outcome {
	topic := Services(datacenter)
	rows := make([]row, 0, len(names))
	for _, n := range names {
		rows = append(rows, &serviceRow{Topic: topic.String(), Key: rowKey(n), Name: n, State: Present})
	}
	return tx.put(tableServices, topic, rows, r)
}

// Fail records why a topic could not be read. Everything known of it stays.
func (tx *Tx) Fail(topic Topic, reason string) {
	tx.fail(topic, reason, false)
}

// Off records why the source has no such thing as the topic, which is no fault. Everything known of it
// stays.
func (tx *Tx) Off(topic Topic, reason string) { tx.fail(topic, reason, true) }

func (tx *Tx) fail(topic Topic, reason string, off bool) {
	status := tx.topic(topic)
	if status.Failure == reason && status.Off == off {
		return
	}
	status.Failure, status.Off = reason, off
	tx.setTopic(status)
	if !status.Known {
		tx.changed[topic.status()] = struct{}{}
	}
}

// Forget drops all that is known of a topic that nothing needs any more.
func (tx *Tx) Forget(topic Topic) {
	tx.dropRight(topic)
	tx.dropValue(topic)
	for _, table := range []string{tableEntries, tableServices, tableInstances} {
		tx.must(tx.txn.DeleteAll(table, indexTopic, topic.String()))
	}
	n, err := tx.txn.DeleteAll(tableTopics, indexID, topic.String())
	tx.must(n, err)
	if n > 0 {
		tx.changed[topic.status()] = struct{}{}
	}
}

// CloseWorld declares that the source has all there is: a topic that was never committed is absent.
func (tx *Tx) CloseWorld() {
	if tx.topic(everything).Complete {
		return
	}
	tx.setTopic(TopicStatus{Topic: everything, Read: true, Known: true, Complete: true})
	tx.changed[everything.status()] = struct{}{}
}

// everything is the pseudo-topic that is complete in a closed world.
var everything = Topic{Kind: "everything"}

// row is what the tables of entries and services have in common.
type row interface {
	id() []any // the values of the id index, which are strings
	rowID(Topic) ID
	state() State
	withState(State) row
	// succeed returns the row to keep when this one follows old, which lies before it in time unless
	// a part of it has the lower index, and whether its content differs from old's.
	succeed(old row, reset bool) (row, bool)
	// older reports whether a part of this row has a lower index than that of old.
	older(old row) bool
}

// put replaces the rows of a topic, as far as the reading is trusted.
func (tx *Tx) put(table string, topic Topic, rows []row, r Reading) Outcome {
	var out Outcome
	before := len(tx.changed)
	seen := make(map[string]bool, len(rows))
	for _, next := range rows {
		seen[keyOf(next)] = true
		if tx.putRow(table, topic, next, r.Reset) {
			out.Older++
		}
	}
	for _, old := range tx.rows(table, topic) {
		switch {
		case seen[keyOf(old)]:
		case r.Confirmed:
			tx.must(0, tx.txn.Delete(table, old))
			tx.changed[old.rowID(topic)] = struct{}{}
		default:
			out.Suspects++
			if old.state() != Suspect {
				tx.must(0, tx.txn.Insert(table, old.withState(Suspect)))
			}
		}
	}
	tx.read(topic, r, len(rows) > 0)
	out.Changed = len(tx.changed) > before
	out.Unconfirmed = !tx.topic(topic).Complete
	return out
}

// putRow puts a row in the place of the one with its key, and reports whether that had newer parts,
// which stay.
func (tx *Tx) putRow(table string, topic Topic, next row, reset bool) (older bool) {
	raw, err := tx.txn.First(table, indexID, next.id()...)
	tx.must(0, err)
	differs := true
	if raw != nil {
		prev := raw.(row)
		older = !reset && next.older(prev)
		next, differs = next.succeed(prev, reset)
	}
	if differs {
		tx.changed[next.rowID(topic)] = struct{}{}
	}
	tx.must(0, tx.txn.Insert(table, next))
	return older
}

// keyOf is the row's key as one string, in which no two keys look alike.
func keyOf(r row) string { return fmt.Sprintf("%q", r.id()) }

// read records that a topic was read.
func (tx *Tx) read(topic Topic, r Reading, hasRows bool) {
	old := tx.topic(topic)
	next := TopicStatus{
		Topic: topic, Read: true,
		Known:    old.Known || r.Confirmed || hasRows,
		Complete: old.Complete || r.Confirmed,
	}
	if next == old {
		return
	}
	tx.setTopic(next)
	if next.Known != old.Known || next.Complete != old.Complete || !old.Read {
		tx.changed[topic.status()] = struct{}{}
	}
}

func (tx *Tx) rows(table string, topic Topic) []row {
	it, err := tx.txn.Get(table, indexTopic, topic.String())
	tx.must(0, err)
	var rows []row
	for v := it.Next(); v != nil; v = it.Next() {
		rows = append(rows, v.(row))
	}
	return rows
}

func (tx *Tx) topic(topic Topic) TopicStatus {
	return View{txn: tx.txn}.Topic(topic)
}

func (tx *Tx) setTopic(s TopicStatus) {
	tx.must(0, tx.txn.Insert(tableTopics, &topicRow{Key: s.Topic.String(), TopicStatus: s}))
}

// must ends the program on an error that only a wrong schema can cause.
func (tx *Tx) must(_ int, err error) {
	if err != nil {
		panic(fmt.Sprintf("facts: the schema does not fit a row: %v", err))
	}
}
