package session

import (
	"hash/maphash"
	"slices"
)

// subscribeSotW takes over the full list of names of a state-of-the-world message.
func (sub *subscription) subscribeSotW(req *Request, listed uint64, first bool) {
	if !first && sub.listed == listed {
		return
	}
	sub.listed = listed
	if first && req.Version != "" {
		// The client holds something of an earlier stream and does not say what: names it lists may
		// be among it, and of a full-state type anything that the first full set does not have
		// will be removed.
		if sub.t.full {
			sub.luggage = &luggage{req.Version, slices.Clone(req.Names)}
		}
		for _, name := range req.Names {
			if !sub.t.full && name != wildcardName {
				sub.held.set(name, unsure)
			}
		}
	}
	sub.everNamed = sub.everNamed || len(req.Names) > 0
	star := slices.Contains(req.Names, wildcardName)
	sub.setWildcard(sub.t.wildcard && (star || !sub.everNamed))
	if first && sub.wildcard && len(req.Names) <= 1 {
		sub.claim = req.Version
	}

	wanted := make(map[string]struct{}, len(req.Names))
	for _, name := range req.Names {
		if name == wildcardName {
			continue
		}
		wanted[name] = struct{}{}
		if _, ok := sub.named[name]; !ok {
			sub.mark(name, !first)
		}
	}
	gone := sub.named
	sub.named = wanted
	for name := range gone {
		if _, ok := wanted[name]; !ok {
			sub.drop(name, false)
		}
	}
}

var seed = maphash.MakeSeed()

// fingerprint stands for a list of names, in any order: an acknowledgement repeats the list, and keeping
// the last one to compare with would cost more than all else that a stream needs.
func fingerprint(names []string) uint64 {
	sum := uint64(0)
	for _, name := range names {
		sum += maphash.String(seed, name)
	}
	return sum
}

// subscribeDelta applies the change of a delta message.
func (sub *subscription) subscribeDelta(req *Request, first, listsHeld bool) {
	if first {
		for name, version := range req.Initial {
			if name != wildcardName {
				sub.held.set(name, brought(name, version))
			}
		}
		if sub.t.wildcard && (len(req.Subscribe) == 0 || listsHeld) {
			sub.setWildcard(true)
			return
		}
	}
	for _, name := range req.Unsubscribe {
		if name == wildcardName {
			sub.setWildcard(false)
		} else if _, ok := sub.named[name]; ok {
			delete(sub.named, name)
			sub.drop(name, true)
		}
	}
	for _, name := range req.Subscribe {
		if name == wildcardName {
			sub.setWildcard(sub.t.wildcard)
			continue
		}
		if sub.named == nil {
			sub.named = make(map[string]struct{}, len(req.Subscribe))
		}
		sub.named[name] = struct{}{}
		// A name that is asked for again is sent again, the client may have forgotten it (envoy
		// 22418). Only on a reconnect an equal version is enough.
		sub.mark(name, !first)
	}
}

// listsHeld reports whether the first delta message of a type asks by name for nothing but what the
// client holds already: a wildcard spelled out by a client that knows no other way.
func listsHeld(req *Request) bool {
	for _, name := range req.Subscribe {
		if _, ok := req.Initial[name]; !ok {
			return false
		}
	}
	return len(req.Initial) > 0
}

func (sub *subscription) setWildcard(on bool) {
	if on == sub.wildcard {
		return
	}
	sub.wildcard = on
	if on {
		sub.all, sub.answer = true, true
		return
	}
	sub.answer, sub.claim = false, ""
	for _, name := range sub.known() {
		if _, ok := sub.named[name]; !ok {
			sub.forget(name)
		}
	}
}

// known returns every name of which anything is noted.
func (sub *subscription) known() []string {
	var names []string
	for name := range sub.held.entries {
		names = append(names, name)
	}
	for name := range sub.rejected {
		names = append(names, name)
	}
	for name := range sub.dirty {
		names = append(names, name)
	}
	for name := range sub.parked {
		names = append(names, name)
	}
	return names
}

// drop follows a name out of the named subscription. Under a wildcard it may be wanted still: delta
// then asks for an answer that says so.
func (sub *subscription) drop(name string, answer bool) {
	if sub.wildcard {
		sub.mark(name, answer)
		sub.dropped++
		return
	}
	sub.forget(name)
}
