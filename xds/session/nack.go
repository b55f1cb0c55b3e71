package session

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// maxRefusalBytes bounds what is kept of the text of a NACK.
const maxRefusalBytes = 4 << 10

// rejection is content of a name that the client refused.
type rejection struct {
	version string
	// retry says that it will be sent once more, alone: it may only have been in bad company.
	retry bool
	nack  *Nack
}

// settle ends the flight by the client's answer.
func (sub *subscription) settle(now time.Time, refusal *Refusal) {
	f := sub.flight
	sub.flight = nil
	if refusal == nil {
		sub.accept(&f.batch)
		sub.record.accepted(f, now)
		return
	}
	sub.refuse(f, now, refusal)
}

// accept takes a batch as what the client holds from now on.
func (sub *subscription) accept(b *batch) {
	sub.held.grow(len(b.puts))
	for _, r := range b.puts {
		if !sub.subscribed(r.Name) {
			continue
		}
		sub.held.set(r.Name, &r.accepted)
		sub.adopt(r.Name)
		if sub.rejected[r.Name].version == r.Version {
			delete(sub.rejected, r.Name)
		}
	}
	for _, name := range b.gone {
		if sub.subscribed(name) {
			sub.tell(name)
		}
	}
}

// refuse holds back what the client's text blames, or all of the response when it names nothing of
// it, and has the rest sent again: a client that refuses a response may have taken any part of it.
// Each refusal takes at least one resource out of what is sent, so that it ends.
func (sub *subscription) refuse(f *flight, now time.Time, refusal *Refusal) {
	suspects := blamed(f, refusal.Message)
	sub.record.refused(f, now, refusal, suspects)
	for _, r := range f.puts {
		if !sub.subscribed(r.Name) {
			continue
		}
		if _, ok := slices.BinarySearch(suspects, r.Name); ok {
			sub.reject(r, len(f.puts) > 1)
		} else {
			sub.mark(r.Name, false)
		}
		sub.held.doubt(r.Name)
		sub.hurry(r.Name, now)
	}
	for _, name := range f.gone {
		switch {
		case !sub.subscribed(name):
		case len(f.puts) == 0: // the same removals again would be refused again
			sub.tell(name)
		default:
			sub.mark(name, true)
		}
	}
	for _, r := range f.beats { // it may have dropped them before
		sub.held.doubt(r.Name)
		sub.mark(r.Name, false)
	}
}

func (sub *subscription) reject(r *Resource, retry bool) {
	if _, again := sub.rejected[r.Name]; again && sub.held.entries[r.Name].accepted() == r {
		return // what it held was sent in place of what it refused before; that refusal stands
	}
	if retry {
		sub.queueRetry(r.Name)
	}
	if sub.rejected == nil {
		sub.rejected = map[string]rejection{}
	}
	sub.rejected[r.Name] = rejection{version: r.Version, retry: retry, nack: sub.record.nack}
}

func (sub *subscription) queueRetry(name string) {
	if !slices.Contains(sub.retries, name) {
		sub.retries = append(sub.retries, name)
	}
}

// blamed returns the names of the resources that occur in the text, or all when none does; sorted. A
// name within a longer one, such as api in v1.api, is not meant by it. Beside heartbeats none is blamed
// without being named: those are not sent again, and tell whether it was them.
func blamed(f *flight, text string) []string {
	all := append(namesOf(f.puts), namesOf(f.beats)...)
	slices.SortStableFunc(all, func(a, b string) int { return len(b) - len(a) })
	var found []string
	for _, name := range all {
		if !strings.Contains(text, name) {
			continue
		}
		text = strings.ReplaceAll(text, name, "\x00")
		if f.put(name) != nil {
			found = append(found, name)
		}
	}
	if len(found) == 0 && len(f.beats) == 0 {
		return namesOf(f.puts)
	}
	slices.Sort(found)
	return found
}

func namesOf(list []*Resource) []string {
	var names []string
	for _, r := range list {
		names = append(names, r.Name)
	}
	return names
}

// shorten cuts a text to n bytes at most, between two characters.
func shorten(text string, n int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
