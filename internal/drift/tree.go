package drift

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// maxDetails is how many fields of one resource are told of, and maxValue how much of a value is printed.
const (
	maxDetails = 20
	maxValue   = 200
)

// details collects what differs between two trees of JSON.
type details struct {
	lines []string
	more  int
}

// list returns what was found, the first of it.
func (d *details) list() []string {
	if d.more > 0 {
		return append(d.lines, fmt.Sprintf("and %d more", d.more))
	}
	return d.lines
}

func (d *details) add(path string, sent, runs any) {
	if len(d.lines) == maxDetails {
		d.more++
		return
	}
	d.lines = append(d.lines, fmt.Sprintf("%s: sent %s, runs %s", strings.TrimPrefix(path, "."), value(sent), value(runs)))
}

// missing stands for a field that is not there.
type missing struct{}

func value(v any) string {
	if v == (missing{}) {
		return "nothing"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	if len(text) > maxValue {
		return strings.ToValidUTF8(string(text[:maxValue]), "") + "..."
	}
	return string(text)
}

func (d *details) compare(path string, sent, runs any) {
	if reflect.DeepEqual(sent, runs) {
		return
	}
	switch a := sent.(type) {
	case map[string]any:
		if b, ok := runs.(map[string]any); ok {
			d.compareObjects(path, a, b)
			return
		}
	case []any:
		if b, ok := runs.([]any); ok && len(a) == len(b) {
			for i := range a {
				d.compare(fmt.Sprintf("%s[%d]", path, i), a[i], b[i])
			}
			return
		}
	}
	d.add(path, sent, runs)
}

func (d *details) compareObjects(path string, sent, runs map[string]any) {
	keys := slices.Collect(maps.Keys(sent))
	for key := range runs {
		if _, both := sent[key]; !both {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		a, hasA := sent[key]
		b, hasB := runs[key]
		if !hasA {
			a = missing{}
		}
		if !hasB {
			b = missing{}
		}
		d.compare(path+"."+key, a, b)
	}
}

// at walks down a tree; nil when there is nothing there.
func at(v any, path ...string) any {
	for _, name := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

func textAt(v any, path ...string) string {
	text, _ := at(v, path...).(string)
	return text
}

func listAt(v any, path ...string) []any {
	list, _ := at(v, path...).([]any)
	return list
}
