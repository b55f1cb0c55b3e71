package facts

import (
	"slices"
	"strings"

	"github.com/catenary-mesh/catenary/chain"
)

// Rights is the topic of whether a reader may read a service: its instances and what they are sent. A
// reader is an identity whose rights are limited, by a name that says nothing of how it proved itself.
// What may be read is a fact like others, so that what is served follows it when it changes.
func Rights(reader, service string) Topic {
	return Topic{Kind: TopicRights, Reader: reader, Name: strings.ToLower(service)}
}

// rightRow is the state of a right: present or absent.
type rightRow struct {
	Topic string
	State State
}

// Right commits whether the reader of a topic of kind rights may read its service.
func (tx *Tx) Right(topic Topic, may bool) {
	state := Absent
	if may {
		state = Present
	}
	_, err := tx.txn.DeleteAll(tableTopics, indexID, topic.String()) // why it was not known
	tx.must(0, err)
	if (View{txn: tx.txn}).right(topic) == state {
		return
	}
	tx.must(0, tx.txn.Insert(tableRights, &rightRow{Topic: topic.String(), State: state}))
	tx.changed[ID{Topic: topic}] = struct{}{}
}

// ForgetRight makes it unknown whether the reader may read, and says why.
func (tx *Tx) ForgetRight(topic Topic, reason string) {
	tx.dropRight(topic)
	tx.Fail(topic, reason)
}

func (tx *Tx) dropRight(topic Topic) {
	n, err := tx.txn.DeleteAll(tableRights, indexTopic, topic.String())
	tx.must(n, err)
	if n > 0 {
		tx.changed[ID{Topic: topic}] = struct{}{}
	}
}

func (v View) right(topic Topic) State {
	if raw, _ := v.txn.First(tableRights, indexID, topic.String()); raw != nil {
		return raw.(*rightRow).State
	}
	return Unknown
}

// Right returns whether a reader may read a service: present, absent, or unknown while nobody has
// asked. The reader without a name may read everything.
func (v View) Right(reader, service string) State {
	if reader == "" {
		return Present
	}
	return v.right(Rights(reader, service))
}

// Right is [View.Right], remembered.
func (r *Reader) Right(reader, service string) State {
	state := r.View.Right(reader, service)
	if reader != "" {
		r.note(Rights(reader, service), "", state)
	}
	return state
}

// Spellings returns the names that look-ups of a service find, in order: Consul ignores their case
// there, and minds it in the rules of its ACLs.
func (v View) Spellings(service string) []string {
	key := rowKey(service)
	var names []string
	it, err := v.txn.Get(tableTopics, indexID+"_prefix", string(TopicServices)+"/")
	if err != nil {
		return nil
	}
	for raw := it.Next(); raw != nil; raw = it.Next() {
		if row, _ := v.txn.First(tableServices, indexID, raw.(*topicRow).Key, key); row != nil {
			names = append(names, row.(*serviceRow).Name)
		}
	}
	for _, kind := range chain.AllKinds() {
		if kind == chain.KindProxyDefaults || kind == chain.KindMesh {
			continue // these are about no service
		}
		if e, _ := v.Entry(kind, service); e != nil {
			names = append(names, e.Head().Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
