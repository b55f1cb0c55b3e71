// Package entry decodes config entries and service definitions in Consul's own formats, HCL 1, JSON
// and YAML, into one positioned tree and from there into the types of the project. It is strict: a key
// that is not known is an error with its file and line. It is pure.
package entry

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// File is what a file holds.
type File struct {
	Entries   []chain.Entry
	Instances []*facts.Instance
	// Origins says where each of the instances is defined, such as "shop.hcl:12".
	Origins map[*facts.Instance]string
	// Problems are all that is wrong, each with file and line. What has an error is not among the
	// entries and instances.
	Problems []chain.Problem
}

// Decode reads a file. The language is that of the name's ending, and guessed without one. It holds
// config entries (one, a list of them, or one per document), or service definitions as Consul's agent
// reads them (service { }, services [ ]), or an agent's config_entries { bootstrap [ ] }.
func Decode(name string, src []byte) File {
	s := &sink{file: name}
	f := &File{Origins: map[*facts.Instance]string{}}
	docs, err := parse(name, src)
	if err != nil {
		line := 1
		message := err.Error()
		code := CodeSyntax
		if e, ok := errors.AsType[*syntaxError](err); ok {
			line, code, message = e.line, e.code, e.message
		}
		s.add("error", code, line, "", "", message)
	}
	for _, doc := range docs {
		s.document(f, doc)
	}
	f.Problems = s.problems
	return *f
}

// DecodeJSON reads a config entry as Consul's HTTP API gives it. A key that is not known is a warning:
// Consul may be newer than we are. The entry is nil when it is of a kind that chains do not use, or
// cannot be decoded at all.
func DecodeJSON(raw []byte) (chain.Entry, []chain.Problem) {
	s := &sink{file: "consul", lenient: true}
	docs, err := parseJSON(raw)
	if err != nil || len(docs) != 1 {
		s.add("error", CodeSyntax, 1, "", "", fmt.Sprintf("not one JSON object (%v)", err))
		return nil, s.problems
	}
	o, ok := docs[0].value.(*object)
	if !ok {
		s.add("error", CodeSyntax, 1, "", "", "not a JSON object")
		return nil, s.problems
	}
	e, _ := s.entry(docs[0].line, o)
	if e != nil {
		e.Head().Origin = "consul"
		e = chain.Normalize(e)
	}
	return e, s.problems
}

// document reads one document: an entry, a list of documents, or a part of an agent's configuration.
func (s *sink) document(f *File, n node) {
	switch v := n.value.(type) {
	case nil:
	case list:
		for _, item := range v {
			s.document(f, item)
		}
	case *object:
		if _, ok := v.get("kind"); ok {
			if e := s.checked(n.line, v); e != nil {
				f.Entries = append(f.Entries, e)
			}
			return
		}
		s.agent(f, n.line, v)
	default:
		s.add("error", CodeNeither, n.line, "", "", neither)
	}
}

const neither = "this is neither a config entry (Kind = ..., Name = ...) nor service definitions (service { } or services [ ])"

// agent reads the part of an agent's configuration that is about services and config entries.
func (s *sink) agent(f *File, line int, o *object) {
	if len(o.fields) == 0 {
		return
	}
	known := false
	for _, key := range []string{"service", "services", "configentries"} {
		_, ok := o.get(key)
		known = known || ok
	}
	if !known {
		s.add("error", CodeNeither, line, "", "", neither)
		return
	}
	for _, field := range o.fields {
		switch plainKey(field.key) {
		case "service", "services":
			for _, n := range field.value.items() {
				for _, in := range s.service(n) {
					f.Instances = append(f.Instances, in)
					f.Origins[in] = at(s.file, n.line)
				}
			}
		case "configentries":
			s.bootstrap(f, field.value)
		default:
			s.add("error", CodeUnknownKey, field.line, "", field.key, fmt.Sprintf(
				"unknown key %q beside service definitions: an agent's other settings do not belong here", field.key))
		}
	}
}

func (s *sink) bootstrap(f *File, n node) {
	for _, part := range n.items() {
		o, ok := part.value.(*object)
		if !ok {
			s.add("error", CodeNeither, part.line, "", "config_entries", "config_entries holds bootstrap [ ], a list of config entries")
			continue
		}
		for _, field := range o.fields {
			if plainKey(field.key) != "bootstrap" {
				s.add("error", CodeUnknownKey, field.line, "", "config_entries."+field.key, fmt.Sprintf(
					"unknown key %q: config_entries holds bootstrap [ ], a list of config entries", field.key))
				continue
			}
			for _, e := range field.value.items() {
				s.document(f, e)
			}
		}
	}
}

// checked decodes an entry of a file and validates it; nil when it has an error. What could not be
// decoded is not judged: the rest of it would look wrong for what is missing.
func (s *sink) checked(line int, o *object) chain.Entry {
	before := len(s.problems)
	e, d := s.entry(line, o)
	if e == nil || s.hasError(before) {
		return nil
	}
	e.Head().Origin = at(s.file, line)
	e = chain.Normalize(e)
	for _, p := range chain.Validate(e) {
		p.Origin = at(s.file, d.lineOf(p.Field))
		s.problems = append(s.problems, p)
	}
	if s.hasError(before) {
		return nil
	}
	return e
}

// entry decodes an object with a kind; nil when the kind is of no use.
func (s *sink) entry(line int, o *object) (chain.Entry, *decoder) {
	value, _ := o.get("kind")
	kind, _ := text(value)
	name, _ := o.get("name")
	label, _ := text(name)
	e := chain.New(chain.Kind(kind))
	switch {
	case e != nil:
	case otherKinds[kind]:
		s.add("warning", CodeIgnoredKind, line, kind+"/"+label, "", fmt.Sprintf(
			"entries of kind %s are not used yet: this one is ignored", kind))
		return nil, nil
	default:
		s.add("error", CodeKind, line, kind+"/"+label, "Kind", fmt.Sprintf(
			"unknown kind %q: want one of %v", kind, chain.AllKinds()))
		return nil, nil
	}
	d := &decoder{sink: s, entry: kind + "/" + label, lines: map[string]int{}}
	d.decode("", node{line: line, value: d.body(o)}, reflect.ValueOf(e).Elem())
	return e, d
}

// body is an entry without what is about it rather than in it.
func (d *decoder) body(o *object) *object {
	out := &object{}
	for _, f := range o.fields {
		switch plainKey(f.key) {
		case "kind", "createindex", "hash":
		case "namespace", "partition":
			if !d.lenient {
				d.add("error", chain.CodeEnterprise, f.line, d.entry, f.key,
					"namespaces and partitions are Consul Enterprise: remove the key")
			}
		default:
			out.fields = append(out.fields, f)
		}
	}
	return out
}

// otherKinds are those that Consul has and nothing here uses.
var otherKinds = map[string]bool{
	"exported-services": true, "ingress-gateway": true,
	"terminating-gateway": true, "api-gateway": true, "bound-api-gateway": true, "http-route": true,
	"tcp-route": true, "inline-certificate": true, "file-system-certificate": true,
	"jwt-provider": true, "sameness-group": true, "control-plane-request-limit": true,
}

// get finds the first value of a key, which is given without case and underscores.
func (o *object) get(key string) (node, bool) {
	for _, f := range o.fields {
		if plainKey(f.key) == key {
			return f.value, true
		}
	}
	return node{}, false
}
