package consulwatch

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// sink is where what is read of one topic goes: to the store, to the status, and to the log, where
// each change of state is said once.
type sink struct {
	source *Source
	store  *facts.Store
	topic  facts.Topic

	// Only the follower touches these.
	warnings []string // of the last answer
	broken   string   // what of the last answer could not be understood
	// known is the highest index of what was committed, since a restore: what is from before it is old.
	known uint64
	// gateways is what a topic of gateways is made of; nil for others.
	gateways *gateways

	mu     sync.Mutex
	status Status
	warned string // the failure that was logged and is not over
}

// commit decodes an answer and commits it as a reading. The error is a failure to decode it.
func (k *sink) commit(a answer, r facts.Reading) (facts.Outcome, error) {
	return k.commitSince(a, r, nil)
}

// commitSince is commit, together with what happened since the answer was made.
func (k *sink) commitSince(a answer, r facts.Reading, since []effect) (facts.Outcome, error) {
	d, err := k.decode(a)
	if err != nil {
		return facts.Outcome{}, err
	}
	var out facts.Outcome
	k.store.Commit(func(tx *facts.Tx) {
		out = d.put(tx, r)
		apply(tx, k.topic, since)
		if d.broken != "" {
			tx.Fail(k.topic, d.broken)
		}
	})
	if out.Changed && k.topic.Kind == facts.TopicEntries && isCentral(chain.Kind(k.topic.Name)) {
		k.source.central.give()
	}
	result := ResultUnchanged
	if out.Changed {
		result = ResultChanged
	}
	k.source.metrics.Query(k.topic.Kind, result, a.took)
	k.broken = d.broken
	k.learn(a.index)
	for _, e := range since {
		k.learn(e.index)
	}
	k.answered(a)
	k.mu.Lock()
	k.status.Failure, k.status.Off, k.status.Problems = "", "", d.problems
	k.mu.Unlock()
	k.say(d.broken)
	return out, nil
}

// learn records the index of what was committed.
func (k *sink) learn(index uint64) { k.known = max(k.known, index) }

// unchanged records that Consul had nothing newer: what was read last holds, and can be read.
func (k *sink) unchanged(a answer) {
	k.source.metrics.Query(k.topic.Kind, ResultUnchanged, a.took)
	k.answered(a)
	k.mu.Lock()
	failed := k.status.Failure != "" || k.warned != k.broken
	k.status.Failure = ""
	k.mu.Unlock()
	if failed {
		k.store.Commit(func(tx *facts.Tx) { tx.Fail(k.topic, k.broken) })
		k.say(k.broken)
	}
}

func (k *sink) answered(a answer) {
	k.mu.Lock()
	k.status.Index, k.status.Backend, k.status.answered = a.index, a.backend, time.Now()
	k.mu.Unlock()
	k.source.reached(k.topic)
}

// fail records a failed attempt. Everything known of the topic stays.
func (k *sink) fail(err error) {
	reason := err.Error()
	var f *failure
	if errors.As(err, &f) && f.off {
		k.off(reason)
		return
	}
	k.source.metrics.Query(k.topic.Kind, ResultFailed, 0)
	k.store.Commit(func(tx *facts.Tx) { tx.Fail(k.topic, reason) })
	if f != nil && f.server {
		if f.away {
			ring(k.source.gone)
		}
		k.mu.Lock()
		k.status.Failure = reason
		k.mu.Unlock()
		k.source.lost(k.topic, reason) // said once for all topics
		return
	}
	k.source.reached(k.topic) // it did answer, if not what was asked
	k.failure(reason)
}

// failure records why a topic cannot be read.
func (k *sink) failure(reason string) {
	k.mu.Lock()
	k.status.Failure = reason
	k.mu.Unlock()
	k.say(reason)
}

// say says that a topic cannot be read, and, when reason is empty, that it can be read again.
func (k *sink) say(reason string) {
	k.mu.Lock()
	news := k.warned != reason
	k.warned = reason
	k.mu.Unlock()
	switch {
	case !news:
	case reason == "":
		k.source.log.Info("a topic can be read again", "topic", k.topic)
	default:
		k.source.log.Warn("a topic cannot be read: what is known of it stays, and it is tried again", "topic", k.topic, "reason", reason)
	}
}

// hidden records why a reading is not confirmed; empty means that it is.
func (k *sink) hidden(reason string) {
	k.mu.Lock()
	old := k.status.Hidden
	k.status.Hidden = reason
	k.mu.Unlock()
	if old != reason {
		k.source.veil(k.topic, reason)
	}
}

// mode records how the topic is followed now.
func (k *sink) mode(m Mode) {
	k.mu.Lock()
	k.status.Mode = m
	k.mu.Unlock()
}

// decoded is an answer made rows.
type decoded struct {
	put func(*facts.Tx, facts.Reading) facts.Outcome
	// broken says what could not be made a row, while the rest could.
	broken string
	// problems are what is wrong with single config entries.
	problems []chain.Problem
}

// decode is the table of how each kind of topic is decoded.
func (k *sink) decode(a answer) (decoded, error) {
	var d decoded
	var err error
	switch k.topic.Kind {
	case facts.TopicEntries:
		d, err = k.decodeEntries(a.body)
	case facts.TopicServices:
		var names []string
		names, err = decodeServices(a.body)
		d.put = func(tx *facts.Tx, r facts.Reading) facts.Outcome {
			return tx.Services(k.topic.Datacenter, names, r)
		}
	case facts.TopicHealth, facts.TopicConnect, facts.TopicProxies:
		var list []*facts.Instance
		list, err = decodeInstances(a.body, k.topic.Kind)
		d.put = func(tx *facts.Tx, r facts.Reading) facts.Outcome {
			return tx.Instances(k.topic, list, r)
		}
	case facts.TopicRoots:
		var roots facts.Roots
		roots, err = decodeRoots(a.body)
		d.put = func(tx *facts.Tx, _ facts.Reading) facts.Outcome { return tx.Roots(roots) }
	case facts.TopicGateways:
		var names []string
		names, err = decodeServices(a.body)
		d.put = func(_ *facts.Tx, r facts.Reading) facts.Outcome { return k.gateways.named(names, r.Confirmed) }
	case facts.TopicRights, facts.TopicDefaultIntention, facts.TopicLeaf, facts.TopicVerdicts, facts.TopicVirtualIPs: // never read so
	}
	if err != nil {
		err = &failure{
			text:  fmt.Sprintf("Consul's answer for %s has not the shape of its API: %v", k.topic, err),
			cause: err,
		}
	}
	return d, err
}

// decodeEntries decodes a list of config entries. One that cannot be decoded must not look like one
// that is gone: its last good form stays, and if there is none the kind counts as not fully read.
func (k *sink) decodeEntries(body []byte) (decoded, error) {
	kind := chain.Kind(k.topic.Name)
	list, err := decodeEntries(body)
	if err != nil {
		return decoded{}, err
	}
	k.warn(list.warnings)
	d := decoded{problems: list.problems}
	view, complete := k.store.View(), true
	for _, b := range list.broken {
		d.broken = b.problem
		if last, _ := view.Entry(kind, b.name); last != nil {
			list.entries = append(list.entries, last)
		} else {
			complete = false
		}
	}
	d.put = func(tx *facts.Tx, r facts.Reading) facts.Outcome {
		r.Confirmed = r.Confirmed && complete
		return tx.Entries(kind, list.entries, r)
	}
	return d, nil
}

// warn logs each of the warnings that was not among those of the last answer.
func (k *sink) warn(warnings []string) {
	for _, w := range warnings {
		if !slices.Contains(k.warnings, w) {
			k.source.log.Warn("a config entry is not understood completely", "problem", w)
		}
	}
	k.warnings = warnings
}
