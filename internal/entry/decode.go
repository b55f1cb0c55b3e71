package entry

import (
	"fmt"
	"reflect"
	"strconv"
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
		v.Set(reflect.ValueOf(plain(n)))
	default:
		d.scalar(path, n, v)
	}
}

// one returns the map that a value is, taking a list of one for its element: that is what a block in
// HCL is to Consul.
func (d *decoder) one(path string, n node) (*object, bool) {
	if l, ok := n.value.(list); ok && len(l) == 1 {
		n = l[0]
	}
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
		if !ok {
			d.unknown(join(path, f.key), f, fields)
			continue
		}
		if first, twice := seen[name]; twice {
			d.add("error", CodeTwice, f.line, d.entry, join(path, f.key), fmt.Sprintf(
				"the key %s is given twice, first in line %d: remove one", f.key, first))
			continue
		}
		seen[name] = f.line
		if target.index != nil {
			d.decode(join(path, target.name), f.value, v.FieldByIndex(target.index))
		}
	}
}

// target is a field of a struct; one without an index is accepted and dropped.
type target struct {
	name  string
	index []int
}

// fieldsOf lists the keys that a struct takes, without case and underscores, so that CamelCase and
// snake_case are one.
func fieldsOf(t reflect.Type) map[string]target {
	fields := map[string]target{}
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous || !f.IsExported() || f.Name == "Origin" {
			continue
		}
		fields[plainKey(f.Name)] = target{name: f.Name, index: f.Index}
	}
	if aliased, ok := reflect.Zero(t).Interface().(interface{ aliases() map[string]string }); ok {
		for key, name := range aliased.aliases() {
			tgt := target{name: key}
			if name != "" {
				tgt = fields[plainKey(name)]
			}
			fields[plainKey(key)] = tgt
		}
	}
	return fields
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

func plainKey(key string) string { return strings.ToLower(strings.ReplaceAll(key, "_", "")) }

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

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

// table decodes a map of the user's own keys, which stay as they are written.
func (d *decoder) table(path string, n node, v reflect.Value) {
	objects, ok := n.value.(list)
	if !ok {
		objects = list{n}
	}
	m := reflect.MakeMap(v.Type())
	for _, item := range objects {
		o, ok := item.value.(*object)
		if !ok {
			d.mismatch(path, item, "a map")
			return
		}
		for _, f := range o.fields {
			key := reflect.ValueOf(f.key)
			if m.MapIndex(key).IsValid() {
				d.add("error", CodeTwice, f.line, d.entry, join(path, f.key),
					fmt.Sprintf("the key %s is given twice: remove one", f.key))
				continue
			}
			value := reflect.New(v.Type().Elem()).Elem()
			d.decode(join(path, f.key), f.value, value)
			m.SetMapIndex(key, value)
		}
	}
	v.Set(m)
}

// slice takes a single value for a list of one.
func (d *decoder) slice(path string, n node, v reflect.Value) {
	items, ok := n.value.(list)
	if !ok {
		items = list{n}
	}
	s := reflect.MakeSlice(v.Type(), len(items), len(items))
	for i, item := range items {
		d.decode(fmt.Sprintf("%s[%d]", path, i), item, s.Index(i))
	}
	v.Set(s)
}

func (d *decoder) duration(path string, n node, v reflect.Value) {
	switch x := n.value.(type) {
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
		if x == "" {
			return
		}
	}
	d.mismatch(path, n, `a duration, such as "3s", or a number of nanoseconds`)
}

// scalar converts between strings, numbers and booleans where nothing is lost.
func (d *decoder) scalar(path string, n node, v reflect.Value) {
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
		if b, err = strconv.ParseBool(text); err == nil {
			v.SetBool(b)
		}
	case reflect.Int, reflect.Int64:
		var i int64
		if i, err = strconv.ParseInt(integral(text), 10, v.Type().Bits()); err == nil {
			v.SetInt(i)
		}
	case reflect.Uint32, reflect.Uint64:
		var u uint64
		if u, err = strconv.ParseUint(integral(text), 10, v.Type().Bits()); err == nil {
			v.SetUint(u)
		}
	case reflect.Float32, reflect.Float64:
		var f float64
		if f, err = strconv.ParseFloat(text, v.Type().Bits()); err == nil {
			v.SetFloat(f)
		}
	default:
		err = fmt.Errorf("no conversion to %s", v.Kind())
	}
	if err != nil {
		d.mismatch(path, n, article(v.Kind()))
	}
}

// integral drops a fraction of zeros: 3.0 is an integer in JSON.
func integral(text string) string {
	whole, fraction, ok := strings.Cut(text, ".")
	if ok && strings.Trim(fraction, "0") == "" {
		return whole
	}
	return text
}

func text(n node) (string, bool) {
	switch x := n.value.(type) {
	case string:
		return x, true
	case number:
		return string(x), true
	case bool:
		return strconv.FormatBool(x), true
	}
	return "", false
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

// plain is a value whose keys are the user's: maps and lists of strings, booleans and numbers.
func plain(n node) any {
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
		for _, item := range x {
			l = append(l, plain(item))
		}
		return l
	case *object:
		m := make(map[string]any, len(x.fields))
		for _, f := range x.fields {
			m[f.key] = plain(f.value)
		}
		return m
	}
	return n.value
}

// nearest finds the field whose name is at most two edits from a key.
func nearest(key string, fields map[string]target) string {
	best, found := 3, ""
	for name, t := range fields {
		if d := distance(key, name); d < best || d == best && t.name < found && d < 3 {
			best, found = d, t.name
		}
	}
	return found
}

// distance is the number of insertions, deletions and substitutions between two strings.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			substitution := diagonal
			if a[i-1] != b[j-1] {
				substitution++
			}
			diagonal = row[j]
			row[j] = min(row[j]+1, row[j-1]+1, substitution)
		}
	}
	return row[len(b)]
}
