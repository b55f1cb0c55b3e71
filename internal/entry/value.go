package entry

import (
	"fmt"
	"reflect"
	"strconv"
	"time"
)

// items is a list's elements, or the value itself as the only one.
func (n node) items() list {
	switch v := n.value.(type) {
	case nil:
		return nil
	case list:
		return v
	}
	return list{n}
}

// single is the only element of a list of one, which Consul takes for it wherever no list is wanted.
func (n node) single() node {
	for {
		l, ok := n.value.(list)
		if !ok || len(l) != 1 {
			return n
		}
		n = l[0]
	}
}

func (d *decoder) duration(path string, n node, v reflect.Value) {
	n = n.single()
	switch x := n.value.(type) {
	case nil:
		return
	case number:
		if ns, err := strconv.ParseInt(string(x), 10, 64); err == nil {
			v.SetInt(ns)
			return
		}
	case string:
		parsed, err := time.ParseDuration(x)
		if err == nil {
			v.SetInt(int64(parsed))
			return
		}
		if x == "" && d.lenient {
			return
		}
	}
	d.mismatch(path, n, `a duration, such as "3s", or a number of nanoseconds`)
}

// scalar converts between strings, numbers and booleans as Consul does, but for numbers with a
// fraction where a whole one is wanted: Consul cuts it off.
func (d *decoder) scalar(path string, n node, v reflect.Value) {
	n = n.single()
	if n.value == nil {
		return
	}
	text, ok := text(n)
	if !ok {
		d.mismatch(path, n, article(v.Kind()))
		return
	}
	var err error
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		var b bool
		if b, err = boolOf(n, text); err == nil {
			v.SetBool(b)
		}
	case reflect.Int, reflect.Int64:
		var i int64
		if i, err = strconv.ParseInt(zeroed(text), 0, v.Type().Bits()); err == nil {
			v.SetInt(i)
		}
	case reflect.Uint32, reflect.Uint64:
		var u uint64
		if u, err = strconv.ParseUint(zeroed(text), 0, v.Type().Bits()); err == nil {
			v.SetUint(u)
		}
	case reflect.Float32, reflect.Float64:
		var f float64
		if f, err = floatOf(zeroed(text), v.Type().Bits()); err == nil {
			v.SetFloat(f)
		}
	default:
		err = fmt.Errorf("no conversion to %s", v.Kind())
	}
	if err != nil {
		d.mismatch(path, n, article(v.Kind()))
	}
}

// text is a scalar as a string; Consul makes 1 and 0 of booleans.
func text(n node) (string, bool) {
	switch x := n.value.(type) {
	case string:
		return x, true
	case number:
		return string(x), true
	case bool:
		if x {
			return "1", true
		}
		return "0", true
	}
	return "", false
}

// zeroed is a number as a string; an empty one is 0.
func zeroed(text string) string {
	if text == "" {
		return "0"
	}
	return text
}

// boolOf takes every number but 0 for true.
func boolOf(n node, text string) (bool, error) {
	if _, ok := n.value.(number); ok {
		return text != "0", nil
	}
	return strconv.ParseBool(zeroed(text))
}

// floatOf refuses what JSON cannot say.
func floatOf(text string, bits int) (float64, error) {
	if _, err := numberOf(0, text); err != nil {
		return 0, err
	}
	return strconv.ParseFloat(text, bits)
}

func article(k reflect.Kind) string {
	switch k {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Uint32, reflect.Uint64:
		return "a whole number from 0"
	case reflect.Float32, reflect.Float64:
		return "a number"
	default:
		return "a whole number"
	}
}

func (d *decoder) mismatch(path string, n node, want string) {
	got := n.kind()
	if t, ok := text(n); ok {
		got = fmt.Sprintf("%s (%.80s)", got, t)
	}
	d.add("error", CodeType, n.line, d.entry, path, fmt.Sprintf("must be %s, and is %s", want, got))
}

// plain is a value whose keys are the user's: maps and lists of strings, booleans and numbers, which
// are int64 or float64. A list of one that is the value of a key is what it holds: Consul makes that of
// it when it is written.
func (d *decoder) plain(path string, n node) any {
	if !d.lenient {
		n = n.single()
	}
	return d.asIs(path, n)
}

func (d *decoder) asIs(path string, n node) any {
	switch x := n.value.(type) {
	case number:
		if i, err := strconv.ParseInt(string(x), 10, 64); err == nil {
			return i
		}
		f, err := strconv.ParseFloat(string(x), 64)
		if err != nil {
			return string(x)
		}
		return f
	case list:
		l := make([]any, 0, len(x))
		for i, item := range x {
			l = append(l, d.asIs(fmt.Sprintf("%s[%d]", path, i), item))
		}
		return l
	case *object:
		m := reflect.New(reflect.TypeFor[map[string]any]()).Elem()
		d.table(path, node{line: n.line, value: x}, m)
		return m.Interface()
	}
	return n.value
}
