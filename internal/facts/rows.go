package facts

import (
	"reflect"
	"slices"
	"strings"

	"github.com/catenary-mesh/catenary/chain"
)

func (r *entryRow) id() []any        { return []any{r.Topic, r.Key} }
func (r *entryRow) rowID(t Topic) ID { return ID{Topic: t, Row: r.Key} }
func (r *entryRow) state() State     { return r.State }
func (r *entryRow) withState(s State) row {
	c := *r
	c.State = s
	return &c
}

func (r *entryRow) succeed(old row, reset bool) (row, bool) {
	prev := old.(*entryRow)
	if !reset && r.Entry.Head().ModifyIndex < prev.Entry.Head().ModifyIndex {
		return prev.withState(Present), false
	}
	return r, !sameEntry(r.Entry, prev.Entry)
}

func (r *entryRow) older(old row) bool {
	return r.Entry.Head().ModifyIndex < old.(*entryRow).Entry.Head().ModifyIndex
}

// sameEntry compares by content: not by where an entry was read nor when it was written.
func sameEntry(a, b chain.Entry) bool {
	ha, hb := a.Head(), b.Head()
	if ha.ModifyIndex == hb.ModifyIndex && ha.Origin == hb.Origin {
		return reflect.DeepEqual(a, b)
	}
	return reflect.DeepEqual(anonymous(a), anonymous(b))
}

// anonymous returns a shallow copy of an entry without its origin and index.
func anonymous(e chain.Entry) chain.Entry {
	v := reflect.New(reflect.TypeOf(e).Elem())
	v.Elem().Set(reflect.ValueOf(e).Elem())
	c := v.Interface().(chain.Entry)
	c.Head().Origin, c.Head().ModifyIndex = "", 0
	return c
}

func (r *serviceRow) id() []any        { return []any{r.Topic, r.Key} }
func (r *serviceRow) rowID(t Topic) ID { return ID{Topic: t, Row: r.Key} }
func (r *serviceRow) state() State     { return r.State }
func (r *serviceRow) withState(s State) row {
	c := *r
	c.State = s
	return &c
}

func (r *serviceRow) succeed(row, bool) (row, bool) { return r, false }

func (r *serviceRow) older(row) bool { return false }

func (r *instanceRow) id() []any        { return []any{r.Topic, r.Node, r.ServiceID} }
func (r *instanceRow) rowID(t Topic) ID { return ID{Topic: t} }
func (r *instanceRow) state() State     { return r.State }
func (r *instanceRow) withState(s State) row {
	c := *r
	c.State = s
	return &c
}

func (r *instanceRow) succeed(old row, reset bool) (row, bool) {
	prev := old.(*instanceRow).Instance
	next := r.Instance
	if !reset {
		next = newest(prev, next)
	}
	next = sortChecks(next)
	c := *r
	c.Instance = next
	return &c, !sameInstance(prev, next)
}

func (r *instanceRow) older(old row) bool {
	prev := old.(*instanceRow).Instance
	if r.Instance.Node.ModifyIndex < prev.Node.ModifyIndex || r.Instance.Service.ModifyIndex < prev.Service.ModifyIndex {
		return true
	}
	for i := range r.Instance.Checks {
		for j := range prev.Checks {
			if sameCheckOlder(&r.Instance.Checks[i], &prev.Checks[j]) {
				return true
			}
		}
	}
	return false
}

// sameCheckOlder reports whether a is an older state of the check b.
func sameCheckOlder(a, b *Check) bool { return a.CheckID == b.CheckID && a.ModifyIndex < b.ModifyIndex }

// newestIndex is the highest index of any part of the instance that is its own: a node and its checks
// go on without it.
func (in *Instance) newestIndex() uint64 {
	newest := in.Service.ModifyIndex
	for i := range in.Checks {
		if in.Checks[i].ServiceID != "" {
			newest = max(newest, in.Checks[i].ModifyIndex)
		}
	}
	return newest
}

// newest returns next with every part that is older than prev's replaced by prev's. A check that next
// does not have is gone, not old.
func newest(prev, next *Instance) *Instance {
	c := *next
	if c.Node.ModifyIndex < prev.Node.ModifyIndex {
		c.Node = prev.Node
	}
	if c.Service.ModifyIndex < prev.Service.ModifyIndex {
		c.Service = prev.Service
	}
	c.Checks = slices.Clone(next.Checks)
	for i := range c.Checks {
		for j := range prev.Checks {
			if sameCheckOlder(&c.Checks[i], &prev.Checks[j]) {
				c.Checks[i] = prev.Checks[j]
			}
		}
	}
	return &c
}

// sortChecks returns the instance with its checks ordered by ID, so that their order is not content.
func sortChecks(in *Instance) *Instance {
	byID := func(a, b Check) int { return strings.Compare(a.CheckID, b.CheckID) }
	if slices.IsSortedFunc(in.Checks, byID) {
		return in
	}
	c := *in
	c.Checks = slices.SortedFunc(slices.Values(in.Checks), byID)
	return &c
}

// sameInstance compares by content, not by indexes.
func sameInstance(a, b *Instance) bool {
	return reflect.DeepEqual(unindexed(a), unindexed(b))
}

func unindexed(in *Instance) *Instance {
	c := *in
	c.Node.ModifyIndex, c.Service.ModifyIndex = 0, 0
	c.Checks = slices.Clone(in.Checks)
	for i := range c.Checks {
		c.Checks[i].ModifyIndex = 0
	}
	return &c
}
