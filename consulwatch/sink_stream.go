package consulwatch

import (
	"time"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// snapshot commits the instances of a snapshot of events. What is missing from it is never confirmed.
func (k *sink) snapshot(list []*facts.Instance, index uint64) facts.Outcome {
	var out facts.Outcome
	k.store.Commit(func(tx *facts.Tx) { out = tx.Instances(k.topic, list, facts.Reading{}) })
	k.source.metrics.Event(k.topic.Kind, out.Changed)
	k.learn(index)
	k.heard(index)
	return out
}

// works records that the events come which a topic may have lacked, unless it is its queries that fail.
func (k *sink) works(failing bool) {
	k.source.polled(k.topic, nil, "")
	if failing {
		return
	}
	k.mu.Lock()
	k.status.Failure, k.status.Problems = "", nil
	k.mu.Unlock()
	k.say("")
	k.source.regained(k.topic)
}

// effects commits what live events did, and reports whether it is in doubt now what there is: nothing is
// left, and no reading has ever confirmed what that means.
func (k *sink) effects(effects []effect, index uint64) (doubt bool) {
	changed, removed := false, false
	k.store.Commit(func(tx *facts.Tx) { changed, removed = apply(tx, k.topic, effects) })
	k.source.metrics.Event(k.topic.Kind, changed)
	k.learn(index)
	k.heard(index)
	if !removed {
		return false
	}
	view := k.store.View()
	_, state := view.Instances(k.topic)
	return state == facts.Unknown
}

// apply commits effects in their order.
func apply(tx *facts.Tx, topic facts.Topic, effects []effect) (changed, removed bool) {
	for _, e := range effects {
		if e.put != nil {
			changed = tx.PutInstance(topic, e.put) || changed
		} else if tx.RemoveInstance(topic, e.key.node, e.key.id, e.index) {
			changed, removed = true, true
		}
	}
	return changed, removed
}

// heard records that the server has told something. That is no proof that queries are answered.
func (k *sink) heard(index uint64) {
	k.mu.Lock()
	k.status.Index, k.status.Backend, k.status.answered = index, backendEvents, time.Now()
	k.mu.Unlock()
}

// served records which server tells the events; empty means that none does.
func (k *sink) served(server string) {
	k.mu.Lock()
	k.status.Server = server
	k.mu.Unlock()
}

// lacks records why a topic has no events, which is said once for all topics. Everything known of it stays.
func (k *sink) lacks(reason string) {
	k.source.metrics.Query(k.topic.Kind, ResultFailed, 0)
	k.store.Commit(func(tx *facts.Tx) { tx.Fail(k.topic, reason) })
	k.mu.Lock()
	k.status.Failure = reason
	k.mu.Unlock()
}

// failed is fail, if there is an error.
func (k *sink) failed(err error) {
	if err != nil {
		k.fail(err)
	}
}

// registered reports whether an answer about registrations has the same ones as the store, by their
// indexes: their checks do not count.
func (k *sink) registered(a answer) bool {
	list, err := decodeInstances(a.body, k.topic.Kind)
	if err != nil {
		return false // the whole reading says what is wrong
	}
	known, _ := k.store.View().Instances(k.topic)
	if len(list) != len(known) {
		return false
	}
	type at struct{ node, service uint64 }
	indexes := map[instanceKey]at{}
	for _, in := range known {
		indexes[keyOf(in)] = at{in.Node.ModifyIndex, in.Service.ModifyIndex}
	}
	for _, in := range list {
		if indexes[keyOf(in)] != (at{in.Node.ModifyIndex, in.Service.ModifyIndex}) {
			return false
		}
	}
	k.unchanged(a)
	return true
}
