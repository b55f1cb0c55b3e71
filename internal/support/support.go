// Package support says of every field of a config entry what Catenary does with it: the table that the
// documentation prints, and the warnings about what is set in vain. It is pure.
package support

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/catenary-mesh/catenary/chain"
)

// Level is what becomes of a field.
type Level string

// The levels.
const (
	// Supported fields do what they do in Consul.
	Supported Level = "supported"
	// InChain fields are part of the compiled chain, as in Consul; what clients get does not depend on
	// them.
	InChain Level = "in the chain"
	// Ignored fields have no effect, and a warning says so.
	Ignored Level = "ignored, with a warning"
	// Denied fields ask for what is not checked here: what depends on it is denied, and a warning says so.
	Denied Level = "denied, with a warning"
	// Rejected fields are errors, as in Consul's Community Edition.
	Rejected Level = "rejected"
)

// The codes of the warnings about fields that are ignored, and of what is denied.
const (
	CodeIgnored = "CAT1601"
	CodeDenied  = "CAT1602"
)

// Field is a field of a kind, or all below it.
type Field struct {
	// Path leads there, with [] for the items of a list and {} for those of a map.
	Path  string
	Level Level
	// Note says more, such as the code of the error.
	Note string
}

// Fields lists every field of a kind that holds a value, in the order of its type.
func Fields(kind chain.Kind) []Field {
	e := chain.New(kind)
	if e == nil {
		return nil
	}
	var list []Field
	for _, path := range leaves(reflect.TypeOf(e).Elem(), "") {
		row, _ := find(kind, path)
		list = append(list, Field{path, row.Level, row.Note})
	}
	return list
}

// find returns the most specific row for a path.
func find(kind chain.Kind, path string) (Field, bool) {
	best, found := Field{}, false
	for _, row := range rows(kind) {
		if covers(row.Path, path) && len(row.Path) >= len(best.Path) {
			best, found = row, true
		}
	}
	return best, found
}

// covers reports whether a path is a field or lies below it.
func covers(field, path string) bool {
	rest, ok := strings.CutPrefix(path, field)
	return ok && (rest == "" || strings.ContainsAny(rest[:1], ".[{"))
}

// leaves lists the paths of all values below a type.
func leaves(t reflect.Type, path string) []string {
	switch {
	case t.Kind() == reflect.Pointer:
		return leaves(t.Elem(), path)
	case t.Kind() == reflect.Slice && isStruct(t.Elem()):
		return leaves(t.Elem(), path+"[]")
	case t.Kind() == reflect.Map && isStruct(t.Elem()):
		return leaves(t.Elem(), path+"{}")
	case t.Kind() != reflect.Struct:
		return []string{path}
	}
	var list []string
	for _, f := range reflect.VisibleFields(t) {
		if listed(f) {
			list = append(list, leaves(f.Type, join(path, f.Name))...)
		}
	}
	return list
}

func isStruct(t reflect.Type) bool {
	return t.Kind() == reflect.Struct || t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct
}

// listed is true for what users write: neither the header as a whole nor what the reader adds.
func listed(f reflect.StructField) bool { return !f.Anonymous && f.Tag.Get("json") != "-" }

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// Check warns of each field of an entry that does not do what it does in Consul.
func Check(e chain.Entry) []chain.Problem {
	c := &checker{entry: e}
	for _, row := range rows(e.Kind()) {
		if row.Level == Ignored || row.Level == Denied {
			c.warned = append(c.warned, row)
		}
	}
	c.value(reflect.ValueOf(e).Elem(), "", "")
	return c.problems
}

// checker walks the values of an entry.
type checker struct {
	entry    chain.Entry
	warned   []Field
	problems []chain.Problem
}

// value looks at a value at a path of the entry, whose form the table lists.
func (c *checker) value(v reflect.Value, at, form string) {
	if v.IsZero() {
		return
	}
	for _, row := range c.warned {
		if row.Path == form {
			c.warn(at, row)
			return
		}
	}
	switch v.Kind() {
	case reflect.Pointer:
		c.value(v.Elem(), at, form)
	case reflect.Slice:
		for i := range v.Len() {
			c.value(v.Index(i), fmt.Sprintf("%s[%d]", at, i), form+"[]")
		}
	case reflect.Map:
		if isStruct(v.Type().Elem()) {
			c.items(v, at, form)
		}
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(v.Type()) {
			if listed(f) {
				c.value(v.FieldByIndex(f.Index), join(at, f.Name), join(form, f.Name))
			}
		}
	default:
	}
}

// items looks at the items of a map in the order of their keys.
func (c *checker) items(v reflect.Value, at, form string) {
	byKey := map[string]reflect.Value{}
	for _, key := range v.MapKeys() {
		byKey[key.String()] = v.MapIndex(key)
	}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		c.value(byKey[key], fmt.Sprintf("%s[%q]", at, key), form+"{}")
	}
}

func (c *checker) warn(field string, row Field) {
	h := c.entry.Head()
	code, message := CodeIgnored, "has no effect here"
	if row.Level == Denied {
		code, message = CodeDenied, "denies"
	}
	if row.Note != "" {
		message += ": " + row.Note
	}
	c.problems = append(c.problems, chain.Problem{
		Code: code, Severity: chain.SeverityWarning,
		Entry: string(c.entry.Kind()) + "/" + h.Name, Origin: h.Origin, Field: field, Message: message,
	})
}
