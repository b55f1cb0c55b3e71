package facts

import (
	"slices"
	"strings"

	"github.com/hashicorp/go-memdb"

	"github.com/catenary-mesh/catenary/chain"
)

// View is the facts at one moment. It does not change, and may be read by many goroutines at once.
type View struct{ txn *memdb.Txn }

// TopicStatus is what is known of a topic as a whole.
type TopicStatus struct {
	Topic Topic
	// Read means that the topic was read at least once.
	Read bool
	// Known means that a reading had rows or was confirmed: there is something to serve, if only
	// that there is nothing.
	Known bool
	// Complete means that a reading was confirmed: what is not there is absent.
	Complete bool
	// Failure is why the last attempt to read it failed; empty after one that succeeded.
	Failure string
	// Off means that there is nothing to read: the failure says why the source has no such thing.
	Off bool
}

// Topic returns what is known of a topic; a topic never read has the zero status.
func (v View) Topic(topic Topic) TopicStatus {
	if raw, _ := v.txn.First(tableTopics, indexID, topic.String()); raw != nil {
		return raw.(*topicRow).TopicStatus
	}
	return TopicStatus{Topic: topic}
}

// missing is the state of a row that is not there.
func (v View) missing(topic Topic) State {
	if v.Topic(topic).Complete || v.Topic(everything).Complete {
		return Absent
	}
	return Unknown
}

// Entry returns a config entry, which is nil unless its state is present or suspect.
func (v View) Entry(kind chain.Kind, name string) (chain.Entry, State) {
	topic := Entries(kind)
	if raw, _ := v.txn.First(tableEntries, indexID, topic.String(), rowKey(name)); raw != nil {
		return raw.(*entryRow).Entry, raw.(*entryRow).State
	}
	return nil, v.missing(topic)
}

// Service returns the state of a service: whether it has any registration in the datacenter.
func (v View) Service(datacenter, name string) State {
	topic := Services(datacenter)
	if raw, _ := v.txn.First(tableServices, indexID, topic.String(), rowKey(name)); raw != nil {
		return raw.(*serviceRow).State
	}
	return v.missing(topic)
}

// Instances returns the instances of a topic in the order of node and ID; the list is shared and must
// not be changed. The state is absent when there is none, and suspect when none but suspect ones are
// left.
func (v View) Instances(topic Topic) ([]*Instance, State) {
	if row := v.instances(topic); len(row.list) > 0 {
		return slices.Clip(row.list), row.state()
	}
	if v.unregistered(topic) {
		return nil, Absent
	}
	return nil, v.missing(topic)
}

// Known reports whether the instances of a topic are known well enough to serve. Unlike
// [View.Instances] it does not depend on any instance.
func (v View) Known(topic Topic) bool {
	return v.Topic(topic).Known || v.Topic(everything).Complete ||
		v.unregistered(topic)
}

// Closed reports whether the facts are all there are: what is not among them is absent.
func (v View) Closed() bool { return v.Topic(everything).Complete }

// unregistered reports whether a topic of instances is of a service that is known not to exist.
func (v View) unregistered(topic Topic) bool {
	return topic.listed() && v.Service(topic.Datacenter, topic.Name) == Absent
}

// AllEntries returns the entries of a kind in the order of their names.
func (v View) AllEntries(kind chain.Kind) []chain.Entry {
	it, err := v.txn.Get(tableEntries, indexTopic, Entries(kind).String())
	if err != nil {
		return nil
	}
	var list []chain.Entry
	for raw := it.Next(); raw != nil; raw = it.Next() {
		list = append(list, raw.(*entryRow).Entry)
	}
	return list
}

// AllServices returns the names of a datacenter's services in order.
func (v View) AllServices(datacenter string) []string {
	it, err := v.txn.Get(tableServices, indexTopic, Services(datacenter).String())
	if err != nil {
		return nil
	}
	var list []string
	for raw := it.Next(); raw != nil; raw = it.Next() {
		list = append(list, raw.(*serviceRow).Name)
	}
	return list
}

// Topics returns the status of every topic that was read or failed, in the order of their names.
func (v View) Topics() []TopicStatus {
	it, err := v.txn.Get(tableTopics, indexID)
	if err != nil {
		return nil
	}
	var list []TopicStatus
	for raw := it.Next(); raw != nil; raw = it.Next() {
		if s := raw.(*topicRow).TopicStatus; s.Topic != everything {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b TopicStatus) int { return strings.Compare(a.Topic.String(), b.Topic.String()) })
	return list
}

// Ready reports whether the facts that are always followed are loaded: all config entry kinds and
// the services of the datacenter. When not, the reason names what is missing and why.
func (v View) Ready(datacenter string) (bool, string) {
	topics := []Topic{Services(datacenter)}
	for _, k := range chain.AllKinds() {
		topics = append(topics, Entries(k))
	}
	if v.Topic(everything).Complete {
		return true, ""
	}
	for _, t := range topics {
		s := v.Topic(t)
		switch {
		case s.Complete:
		case s.Failure != "":
			return false, t.String() + ": " + s.Failure
		case s.Read:
			return false, t.String() + ": read, but the token may not see all of it"
		default:
			return false, t.String() + ": not read yet"
		}
	}
	return true, ""
}
