package oraclexds_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// nothing stands for what is not there.
const nothing = "nothing"

// difference is a place where the servers differ.
type difference struct {
	// kase is the case.
	kase string
	// path leads to the place, beginning with the type and the name of a resource. An element of a list
	// in which all have names is called by its name, another one by its number; see nameOf.
	path []string
	// theirs is what Consul has there and ours what we have, as JSON, or nothing.
	theirs, ours string
}

func (d difference) where() string { return strings.Join(d.path, "/") }

// differences normalises two trees and compares them.
func differences(kase string, theirs, ours tree) []difference {
	normalise(theirs)
	normalise(ours)
	follow(theirs, ours)
	c := comparison{kase: kase}
	for _, kind := range union(theirs, ours) {
		c.fields([]string{kind}, theirs[kind], ours[kind])
	}
	return c.found
}

type comparison struct {
	kase  string
	found []difference
}

func (c *comparison) differ(path []string, theirs, ours string) {
	c.found = append(c.found, difference{c.kase, slices.Clone(path), theirs, ours})
}

func (c *comparison) values(path []string, theirs, ours any) {
	if reflect.DeepEqual(theirs, ours) {
		return
	}
	switch theirs := theirs.(type) {
	case object:
		if ours, ok := ours.(object); ok {
			c.fields(path, theirs, ours)
			return
		}
	case []any:
		if ours, ok := ours.([]any); ok {
			c.lists(path, theirs, ours)
			return
		}
	}
	c.differ(path, compact(theirs), compact(ours))
}

func (c *comparison) fields(path []string, theirs, ours object) {
	for _, key := range union(theirs, ours) {
		at := append(path, strings.ReplaceAll(key, "/", "%2F"))
		a, here := theirs[key]
		b, there := ours[key]
		switch {
		case !here:
			c.differ(at, nothing, compact(b))
		case !there:
			c.differ(at, compact(a), nothing)
		default:
			c.values(at, a, b)
		}
	}
}

// lists compares by name where all elements have one, and else by place.
func (c *comparison) lists(path []string, theirs, ours []any) {
	a, names := byName(theirs)
	b, others := byName(ours)
	if a != nil && b != nil {
		c.fields(path, a, b)
		common := func(name string) bool { return a[name] == nil || b[name] == nil }
		names, others = slices.DeleteFunc(names, common), slices.DeleteFunc(others, common)
		if !slices.Equal(names, others) {
			c.differ(append(path, "(order)"), compact(names), compact(others))
		}
		return
	}
	a, b = object{}, object{}
	for i, element := range theirs {
		a[fmt.Sprint(i)] = element
	}
	for i, element := range ours {
		b[fmt.Sprint(i)] = element
	}
	c.fields(path, a, b)
}

// byName returns the elements by their names, the second of one name with a number, and the names in
// order, or nil when an element has none.
func byName(list []any) (object, []string) {
	named := object{}
	var order []string
	for _, element := range list {
		name := nameOf(element)
		if name == "" {
			return nil, nil
		}
		for n, first := 2, name; named[name] != nil; n++ {
			name = fmt.Sprintf("%s %d", first, n)
		}
		named[name] = element
		order = append(order, name)
	}
	return named, order
}

// nameOf is what an element is called by: a filter by its type, an endpoint by its address, another one by
// its name.
func nameOf(element any) string {
	o, _ := element.(object)
	configuration, _ := o["typed_config"].(object)
	if kind, ok := configuration["@type"].(string); ok {
		return strings.TrimPrefix(kind, prefix)
	}
	endpoint, _ := o["endpoint"].(object)
	address, _ := endpoint["address"].(object)
	if socket, ok := address["socket_address"].(object); ok {
		return fmt.Sprintf("%v:%v", socket["address"], socket["port_value"])
	}
	name, _ := o["name"].(string)
	return name
}

// union returns the keys of two maps, sorted.
func union[V any](a, b map[string]V) []string {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	return slices.Compact(keys)
}
