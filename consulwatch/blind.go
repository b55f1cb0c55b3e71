package consulwatch

import "github.com/catenary-mesh/catenary/internal/facts"

// errBlind means that a stream does not show what there is, so that it would not tell of changes either.
// Rights are the usual cause, and Consul says nothing of them to a stream.
var errBlind = &failure{text: "the events do not show what a query shows, as when they have fewer rights", again: true}

// missing is what a snapshot lacked that was there before. The zero value lacks nothing.
type missing struct {
	has   map[instanceKey]bool // what the snapshot had; nil when it lacked nothing
	index uint64               // of the snapshot
	// confirmed means that the last reading had nothing hidden from it.
	confirmed bool
}

// note remembers a snapshot, if it lacked something.
func (m *missing) note(list []*facts.Instance, lacks bool, index uint64) {
	*m = missing{}
	if !lacks {
		return
	}
	m.has, m.index = make(map[instanceKey]bool, len(list)), index
	for _, in := range list {
		m.has[keyOf(in)] = true
	}
}

// blind reports whether a reading has shown that there is, and was at the time of the snapshot, something
// that the snapshot lacked.
func (w *streamWatch) blind() bool {
	m := &w.missing
	if m.has == nil || !m.confirmed || w.doubts.raised {
		return false
	}
	defer func() { *m = missing{} }()
	list, _ := w.to.store.View().Instances(w.to.topic)
	for _, in := range list {
		if !m.has[keyOf(in)] && newestPart(in) <= m.index {
			return true
		}
	}
	w.unseen = 0
	return false
}

// newestPart is the highest index of any part of an instance.
func newestPart(in *facts.Instance) uint64 {
	newest := max(in.Node.ModifyIndex, in.Service.ModifyIndex)
	for i := range in.Checks {
		newest = max(newest, in.Checks[i].ModifyIndex)
	}
	return newest
}
