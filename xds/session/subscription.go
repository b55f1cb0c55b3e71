package session

import (
	"slices"
	"strings"
	"time"
)

// subscription is one resource type on the stream.
type subscription struct {
	t *Type

	// What the client asks for.
	asked     bool
	wildcard  bool
	everNamed bool // a name was given on this stream: an empty list no longer means everything (SotW)
	named     map[string]struct{}
	listed    []string // the names of the last message (SotW)

	// What it has, and what it refused.
	held     holdings
	rejected map[string]rejection

	// What it is owed. The values of dirty and parked say: even if unchanged.
	all     bool                 // everything is to be compared
	dirty   map[string]bool      // to be compared in the next turn that can send
	parked  map[string]bool      // unknown, or gone while the offer is incomplete
	leaving map[string]time.Time // to be removed, at the latest at that time
	retries []string             // rejected names to be sent once more, alone
	answer  bool                 // a wildcard is to be answered even by an empty response
	hold    bool                 // a full set goes only when nothing is missing from it (SotW)
	claim   string               // the version of what the client brought along (SotW)

	// What is on the wire: at most one response. The nonce stays after it was answered.
	flight *flight
	nonce  string

	record record
}

// batch is what one response changes for the client, each sorted by name.
type batch struct {
	puts []*Resource
	gone []string
	// overdue is how many of the puts no longer wait for their clusters.
	overdue int
}

func (b *batch) empty() bool { return len(b.puts) == 0 && len(b.gone) == 0 }

// markAll has all of the batch compared again.
func (b *batch) markAll(sub *subscription) {
	for _, r := range b.puts {
		sub.mark(r.Name, false)
	}
	for _, name := range b.gone {
		sub.mark(name, false)
	}
}

// flight is a response that was not answered yet.
type flight struct {
	batch
	version string
	at      time.Time
}

// put returns what the flight carries of a name, or nil.
func (f *flight) put(name string) *Resource {
	if f == nil {
		return nil
	}
	i, ok := slices.BinarySearchFunc(f.puts, name, func(r *Resource, name string) int {
		return strings.Compare(r.Name, name)
	})
	if !ok {
		return nil
	}
	return f.puts[i]
}

// subscribed reports whether the client asks for the name, if it exists.
func (sub *subscription) subscribed(name string) bool {
	_, named := sub.named[name]
	return named || sub.wildcard
}

// mark notes that a name is to be compared, or to be sent even if unchanged.
func (sub *subscription) mark(name string, force bool) {
	if sub.dirty == nil {
		sub.dirty = map[string]bool{}
	}
	sub.dirty[name] = sub.dirty[name] || force || sub.parked[name]
	delete(sub.parked, name)
}

func (sub *subscription) park(name string, force bool) {
	if sub.parked == nil {
		sub.parked = map[string]bool{}
	}
	sub.parked[name] = force
}

// unpark has everything compared again that could not be answered.
func (sub *subscription) unpark() {
	for name := range sub.parked {
		sub.mark(name, false)
	}
}

// leave notes that a name is to be removed, at the latest at the time.
func (sub *subscription) leave(name string, latest time.Time) {
	if sub.leaving == nil {
		sub.leaving = map[string]time.Time{}
	}
	if _, ok := sub.leaving[name]; !ok {
		sub.leaving[name] = latest
	}
}

// forget drops all that is known of a name which the client no longer asks for.
func (sub *subscription) forget(name string) {
	sub.held.forget(name)
	delete(sub.rejected, name)
	delete(sub.dirty, name)
	delete(sub.parked, name)
	delete(sub.leaving, name)
}

// busy reports whether updates of the type are still on their way to the client.
func (sub *subscription) busy() bool {
	return sub.flight != nil || sub.all || len(sub.dirty) > 0 || len(sub.retries) > 0
}

// take empties the notes of what is to be compared and returns them in the order of the names.
func (sub *subscription) take(names []string) []string {
	if sub.all {
		sub.all = false
		sub.unpark()
		for name := range sub.named {
			sub.mark(name, false)
		}
		for name := range sub.held.entries {
			sub.mark(name, false)
		}
		for _, name := range names {
			sub.mark(name, false)
		}
	}
	todo := make([]string, 0, len(sub.dirty))
	for name := range sub.dirty {
		todo = append(todo, name)
	}
	slices.Sort(todo)
	return todo
}

// tell notes that the client knows that a name does not exist.
func (sub *subscription) tell(name string) {
	if _, named := sub.named[name]; named {
		sub.held.set(name, entry{absent: true})
		return
	}
	sub.held.forget(name)
}
