package entry

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// decoder writes one value of a file into Go structs, strictly: a key that no field takes is a
// problem. Typing is as weak as Consul's.
type decoder struct {
	*sink
	entry string         // what the value is, as kind/name
	lines map[string]int // where each field is
}

var durationType = reflect.TypeFor[time.Duration]()

// decode writes n into v. path is where in the entry it is.
func (d *decoder) decode(path string, n node, v reflect.Value) {
	d.lines[path] = n.line
	if n.value == nil {
		return
	}
	switch {
	case v.Type() == durationType:
		d.duration(path, n, v)
		return
	case v.Kind() == reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		d.decode(path, n, p.Elem())
		v.Set(p)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.structure(path, n, v)
	case reflect.Map:
		d.table(path, n, v)
	case reflect.Slice:
		d.slice(path, n, v)
	case reflect.Interface:
		if value := d.plain(path, n); value != nil {
			v.Set(reflect.ValueOf(value))
		}
	default:
		d.scalar(path, n, v)
	}
}

// one returns the map that a value is, taking a list of one for its element: that is what a block in
// HCL is to Consul.
func (d *decoder) one(path string, n node) (*object, bool) {
	n = n.single()
	o, ok := n.value.(*object)
	if !ok {
		d.mismatch(path, n, "a map")
	}
	return o, ok
}

func (d *decoder) structure(path string, n node, v reflect.Value) {
	o, ok := d.one(path, n)
	if !ok {
		return
	}
	fields := fieldsOf(v.Type())
	seen := map[string]int{}
	for _, f := range o.fields {
		name := plainKey(f.key)
		target, ok := fields[name]
		if !ok || !target.spelled(f.key) {
			d.unknown(join(path, f.key), f, fields)
			continue
		}
		if first, twice := seen[name]; twice {
			d.twice(join(path, f.key), f, first)
			continue
		}
		seen[name] = f.line
		if target.index != nil {
			d.decode(join(path, target.name), f.value, v.FieldByIndex(target.index))
		}
	}
}

// lineOf is the line of a field, or of the nearest thing around it that is in the file.
func (d *decoder) lineOf(path string) int {
	for path != "" {
		if line, ok := d.lines[path]; ok {
			return line
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return d.lines[""]
}

// join and keyed write paths as package chain does: A.B and A["k"].
func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func keyed(path, key string) string { return fmt.Sprintf("%s[%q]", path, key) }

func (d *decoder) unknown(path string, f field, fields map[string]target) {
	severity, message := "error", fmt.Sprintf("unknown key %q", f.key)
	if near := nearest(plainKey(f.key), fields); near != "" {
		message += fmt.Sprintf(": did you mean %s?", near)
	}
	if d.lenient {
		severity = "warning"
	}
	d.add(severity, CodeUnknownKey, f.line, d.entry, path, message)
}

func (d *decoder) twice(path string, f field, first int) {
	d.add("error", CodeTwice, f.line, d.entry, path, fmt.Sprintf(
		"the key %s is given twice, first in line %d: remove one", f.key, first))
}

// table decodes a map of the user's own keys, which stay as they are written.
func (d *decoder) table(path string, n node, v reflect.Value) {
	m := reflect.MakeMap(v.Type())
	seen := map[string]int{}
	for _, item := range n.items() {
		o, ok := item.single().value.(*object)
		if !ok {
			d.mismatch(path, item, "a map")
			return
		}
		for _, f := range o.fields {
			if first, ok := seen[f.key]; ok {
				d.twice(keyed(path, f.key), f, first)
				continue
			}
			seen[f.key] = f.line
			value := reflect.New(v.Type().Elem()).Elem()
			d.decode(keyed(path, f.key), f.value, value)
			m.SetMapIndex(reflect.ValueOf(f.key), value)
		}
	}
	v.Set(m)
}

// slice takes a single value for a list of one.
func (d *decoder) slice(path string, n node, v reflect.Value) {
	items := n.items()
	if o, ok := n.value.(*object); ok && len(o.fields) == 0 {
		items = nil // so it is to Consul
	}
	s := reflect.MakeSlice(v.Type(), len(items), len(items))
	for i, item := range items {
		d.decode(fmt.Sprintf("%s[%d]", path, i), item, s.Index(i))
	}
	v.Set(s)
}
