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
	listed    uint64 // the fingerprint of the last message's names (SotW)

	// What it has, and what it refused.
	held     holdings
	rejected map[string]rejection

	// What it is owed. The values of dirty and parked say: even if unchanged.
	all     bool                 // everything is to be compared
	dirty   map[string]bool      // to be compared in the next turn that can send
	dropped int                  // names that the client gave up beside a wildcard, and dirty may hold
	parked  map[string]bool      // unknown, or gone while the offer is incomplete
	leases  map[string]lease     // what must be renewed
	waits   map[string]waiting   // for the client to take clusters into use
	leaving map[string]time.Time // to be removed, at the latest at that time
	retries []string             // rejected names to be sent once more, alone
	answer  bool                 // a wildcard is to be answered even by an empty response
	luggage *luggage             // a full set goes only when none of it is missing there (SotW)
	claim   string               // the version of what the client brought along (SotW)

	// What is on the wire: at most one response. The nonce stays after it was answered.
	flight *flight
	nonce  string

	record record
}

// luggage is what a client may hold of an earlier stream, which says only that it holds something: at most what
// it names, and exactly what the version stands for.
type luggage struct {
	version string
	names   []string
}

// batch is what one response changes for the client, each sorted by name.
type batch struct {
	puts []*Resource
	gone []string
	// beats are resources of which the client hears only that they are still there.
	beats []*Resource
	// overdue is how many of the puts no longer wait for their clusters.
	overdue int
}

func (b *batch) empty() bool { return len(b.puts)+len(b.gone)+len(b.beats) == 0 }

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
	return f.batch.put(name)
}

// has reports whether the batch says anything of a name.
func (b *batch) has(name string) bool {
	_, gone := slices.BinarySearch(b.gone, name)
	return gone || b.put(name) != nil
}

// put returns what the batch has of a name, or nil.
func (b *batch) put(name string) *Resource {
	i, ok := slices.BinarySearchFunc(b.puts, name, func(r *Resource, name string) int {
		return strings.Compare(r.Name, name)
	})
	if !ok {
		return nil
	}
	return b.puts[i]
}

// subscribed reports whether the client asks for the name, if it exists.
func (sub *subscription) subscribed(name string) bool {
	_, named := sub.named[name]
	return named || sub.wildcard
}

// mark notes that a name is to be compared, or to be sent even if unchanged.
func (sub *subscription) mark(name string, force bool) {
	force = force || sub.parked[name]
	if sub.all && !force {
		return // everything is compared
	}
	if sub.dirty == nil {
		sub.dirty = map[string]bool{}
	}
	sub.dirty[name] = sub.dirty[name] || force
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
	sub.parked = nil
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

// waiting is a resource that waits for the client to take clusters into use.
type waiting struct {
	version string
	since   time.Time
}

// since returns when the wait of a resource began, which is now if it does not wait yet.
func (sub *subscription) since(r *Resource, now time.Time) time.Time {
	if w, ok := sub.waits[r.Name]; ok && w.version == r.Version {
		return w.since
	}
	if sub.waits == nil {
		sub.waits = map[string]waiting{}
	}
	sub.waits[r.Name] = waiting{version: r.Version, since: now}
	return now
}

// adopt keeps a name that the client asks for as the resource has it, instead of as a request brought
// it: that would hold on to the memory of the request.
func (sub *subscription) adopt(name string) {
	if _, ok := sub.named[name]; ok {
		sub.named[name] = struct{}{}
	}
}

// forget drops all that is known of a name which the client no longer asks for.
func (sub *subscription) forget(name string) {
	sub.held.forget(name)
	delete(sub.rejected, name)
	delete(sub.dirty, name)
	delete(sub.parked, name)
	delete(sub.leaving, name)
	delete(sub.waits, name)
}

// due reports whether a turn may have something to send.
func (sub *subscription) due() bool {
	return sub.flight == nil && (sub.all || sub.answer ||
		len(sub.dirty)+len(sub.retries)+len(sub.leaving)+len(sub.leases) > 0)
}

// busy reports whether updates of the type are still on their way to the client.
func (sub *subscription) busy() bool {
	return sub.flight != nil || sub.all || len(sub.dirty) > 0 || len(sub.retries) > 0
}

// take returns what is to be compared in the order of the names, in buf if there is room. names are what
// a wildcard stands for. What is noted of a name stays for [subscription.forced].
func (sub *subscription) take(names, buf []string) []string {
	sub.dropped = 0
	if sub.all {
		sub.all = false
		sub.unpark()
		return merge(names, sub.beyond(names))
	}
	for name := range sub.dirty {
		buf = append(buf, name)
	}
	slices.Sort(buf)
	return buf
}

// beyond returns the names of which anything is noted and that are not among the sorted ones.
func (sub *subscription) beyond(names []string) []string {
	rest := make([]string, 0, len(sub.named))
	for name := range sub.named {
		rest = appendNew(rest, name, names)
	}
	for name := range sub.held.entries {
		if _, named := sub.named[name]; !named {
			rest = appendNew(rest, name, names)
		}
	}
	for name := range sub.dirty {
		rest = appendNew(rest, name, names)
	}
	slices.Sort(rest)
	return slices.Compact(rest)
}

func appendNew(rest []string, name string, names []string) []string {
	if _, ok := slices.BinarySearch(names, name); ok {
		return rest
	}
	return append(rest, name)
}

// merge returns the union of two sorted lists that have nothing in common.
func merge(a, b []string) []string {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	out := append(make([]string, 0, len(a)+len(b)), a...)
	out = append(out, b...)
	slices.Sort(out)
	return out
}

// forced takes the note of a name away, and reports whether it is to be sent even if unchanged.
func (sub *subscription) forced(name string) bool {
	force := sub.dirty[name]
	delete(sub.dirty, name)
	return force
}

// tidy gives back the memory of what a turn over n names has settled: a map keeps the size it once had.
func (sub *subscription) tidy(n int) {
	const few = 8
	if n > few && len(sub.dirty) == 0 {
		sub.dirty = nil
	}
	if len(sub.parked) == 0 {
		sub.parked = nil
	}
	if len(sub.leaving) == 0 {
		sub.leaving = nil
	}
	if len(sub.waits) == 0 {
		sub.waits = nil
	}
	if len(sub.rejected) == 0 {
		sub.rejected = nil
	}
}

// tell notes that the client knows that a name does not exist.
func (sub *subscription) tell(name string) {
	if _, named := sub.named[name]; named {
		sub.held.set(name, absence)
		return
	}
	sub.held.forget(name)
}
