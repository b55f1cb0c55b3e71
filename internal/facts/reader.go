package facts

import "github.com/catenary-mesh/catenary/chain"

// Reader reads a view and remembers what it was asked for, so that whoever derives something from
// facts knows when to derive it again. It implements [chain.Entries]. It is for one goroutine.
type Reader struct {
	View
	reads   map[ID]struct{}
	unknown []ID
}

// Read returns a reader of the view that has read nothing yet.
func (v View) Read() *Reader { return &Reader{View: v, reads: map[ID]struct{}{}} }

// Entry implements [chain.Entries].
func (r *Reader) Entry(kind chain.Kind, name string) chain.Entry {
	topic := Entries(kind)
	e, state := r.View.Entry(kind, name)
	r.note(topic, rowKey(name), state)
	return e
}

// Service is [View.Service], remembered.
func (r *Reader) Service(datacenter, name string) State {
	state := r.View.Service(datacenter, name)
	r.note(Services(datacenter), rowKey(name), state)
	return state
}

// Instances is [View.Instances], remembered.
func (r *Reader) Instances(topic Topic) ([]*Instance, State) {
	list, state := r.View.Instances(topic)
	r.note(topic, "", state)
	if len(list) == 0 && topic.listed() {
		r.Service(topic.Datacenter, topic.Name)
	}
	return list, state
}

// Known is [View.Known], remembered.
func (r *Reader) Known(topic Topic) bool {
	r.reads[topic.status()] = struct{}{}
	r.reads[everything.status()] = struct{}{}
	known := r.View.Known(topic)
	if !r.Topic(topic).Known && topic.listed() {
		r.reads[ID{Topic: Services(topic.Datacenter), Row: rowKey(topic.Name)}] = struct{}{}
		r.reads[Services(topic.Datacenter).status()] = struct{}{}
	}
	return known
}

// Has reports whether a topic has anything to serve. Unlike a look at the value it does not depend on it.
func (r *Reader) Has(topic Topic) bool {
	r.reads[topic.status()] = struct{}{}
	return r.Topic(topic).Known
}

func (r *Reader) note(topic Topic, row string, state State) {
	id := ID{Topic: topic, Row: row}
	if _, ok := r.reads[id]; ok {
		return
	}
	r.reads[id] = struct{}{}
	if state == Unknown {
		r.unknown = append(r.unknown, id)
		r.reads[topic.status()] = struct{}{}
		r.reads[everything.status()] = struct{}{}
	}
}

// Reads returns the IDs of all that was read.
func (r *Reader) Reads() map[ID]struct{} { return r.reads }

// Unknown returns the IDs of what was read and is unknown, in the order of reading.
func (r *Reader) Unknown() []ID { return r.unknown }

// Why says in words why a fact is unknown.
func (v View) Why(id ID) string {
	s := v.Topic(id.Topic)
	switch {
	case s.Failure != "":
		return id.String() + ": " + s.Failure
	case s.Read:
		return id.String() + ": not visible to the token, or not confirmed yet"
	default:
		return id.String() + ": not read yet"
	}
}
