package session

import (
	"maps"
	"slices"
)

// Standing is how far a client has followed what it was sent of one name.
type Standing uint8

const (
	// Unsent names were asked for, and nothing was sent of them yet.
	Unsent Standing = iota
	// Unanswered names are in a response that was neither accepted nor refused, or in one that was refused
	// for other names, so that they are sent again.
	Unanswered
	// Accepted names were accepted, or brought along from an earlier stream.
	Accepted
	// Denied names were refused, and their content has not changed since.
	Denied
	// Gone names are known to the client not to exist.
	Gone
)

// Item is what is known of one name on a stream.
type Item struct {
	Type     *Type
	Name     string
	Standing Standing
	// Version is that of the newest content which the client has, or was sent when that is unanswered; it
	// is empty when there is none. Resource is that content; nil where it is not known any more.
	Version  string
	Resource *Resource
	// Refused is the version of what a denied client refused, with its reason; Rejected is that content,
	// nil where it is not known any more.
	Refused  string
	Rejected *Resource
	Nack     *Nack
}

// Book returns what is known of each name that the client asks for or holds, in the order of [Types] and
// of names. What a wildcard stands for, and contents that only the client's word tells of, are looked up
// in the offer; nil offers nothing. Resources and refusals are shared and never change.
func (s *Session) Book(o Offer) []Item {
	if o == nil {
		o = nothingOffered{}
	}
	var book []Item
	for _, sub := range s.asked {
		for _, name := range sub.noted(o) {
			book = append(book, sub.item(name, o))
		}
	}
	return book
}

// noted returns the names of which there is anything to say, sorted.
func (sub *subscription) noted(o Offer) []string {
	names := map[string]struct{}{}
	add := func(name string) { names[name] = struct{}{} }
	for name := range sub.named {
		add(name)
	}
	for name, e := range sub.held.entries {
		if e.holds() {
			add(name)
		}
	}
	if sub.wildcard && !sub.t.vacant {
		for _, name := range o.Names(sub.t) {
			add(name)
		}
	}
	if f := sub.flight; f != nil {
		for _, r := range f.puts {
			add(r.Name)
		}
		for _, name := range f.gone {
			add(name)
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// item puts together what is known of a name.
func (sub *subscription) item(name string, o Offer) Item {
	it := Item{Type: sub.t, Name: name}
	var offered *Resource
	if r, state := o.Lookup(sub.t, name); state == Present {
		offered = r
	}
	held := sub.held.entries[name]
	switch {
	case held == nil:
	case held.absent:
		it.Standing = Gone
	default:
		it.Standing, it.Version, it.Resource = Accepted, held.version, held.resource
		if it.Resource == nil && held.is(offered.version()) {
			it.Resource = offered
		}
		if it.Version == "" { // it may have what it had, or what came after
			it.Standing, it.Version = Unanswered, it.Resource.version()
		}
	}
	if refused, ok := sub.rejected[name]; ok && (sub.flight == nil || !sub.flight.brings(name, refused.version)) {
		it.Standing, it.Refused, it.Nack = Denied, refused.version, refused.nack
		if offered.version() == refused.version {
			it.Rejected = offered
		}
		return it
	}
	if r := sub.flight.put(name); r != nil {
		it.Standing, it.Version, it.Resource = Unanswered, r.Version, r
	} else if sub.flight != nil && sub.flight.has(name) {
		it.Standing = Unanswered
	}
	return it
}

// brings reports whether the flight has another version of a name.
func (f *flight) brings(name, than string) bool {
	r := f.put(name)
	return r != nil && r.Version != than
}

// version is that of a resource, if there is one.
func (r *Resource) version() string {
	if r == nil {
		return ""
	}
	return r.Version
}

// nothingOffered is an offer before there is one.
type nothingOffered struct{}

// Lookup implements [Offer].
func (nothingOffered) Lookup(*Type, string) (*Resource, State) { return nil, Unknown }

// Names implements [Offer].
func (nothingOffered) Names(*Type) []string { return nil }

// Complete implements [Offer].
func (nothingOffered) Complete() bool { return false }
