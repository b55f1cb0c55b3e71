package facts

import (
	"reflect"

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
