// Package drift says how what an Envoy runs differs from what it was sent, resource by resource.
//
// What was sent goes in as the control plane tells of it, and what runs as Envoy's admin API tells of itself;
// the differences come out. Both are read as JSON, so that a field which is not known here is compared too. It is
// pure.
package drift

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// The types of resources.
const (
	Cluster   = "cluster"
	Endpoint  = "endpoint"
	Listener  = "listener"
	Route     = "route"
	Secret    = "secret"
	Extension = "extension"
)

// types is their order in a list of differences.
func types() []string { return []string{Secret, Cluster, Endpoint, Extension, Listener, Route} }

// Sent is one resource that was sent.
type Sent struct {
	Type, Name string
	// Content is the resource in the JSON of protobuf, fields named as in .proto files; of a secret it is its
	// name and sha256. It is nil where the content is not known.
	Content json.RawMessage
	// Refused is the client's reason for refusing what is newest; Content is then what it had accepted before.
	Refused string
	// Gone resources were removed.
	Gone bool
}

// What a [Difference] is.
const (
	// Differs means that something else runs under the name.
	Differs = "differs"
	// Missing means that nothing runs under the name.
	Missing = "missing"
	// NotSent means that it runs and was not sent.
	NotSent = "not sent"
	// Warming means that Envoy has it and does not use it yet.
	Warming = "warming"
	// Overridden means that something of Envoy's bootstrap has the name, which then stands.
	Overridden = "overridden"
	// Refused means that Envoy refused what was sent last.
	Refused = "refused"
	// NotComparable means that the content cannot be told.
	NotComparable = "not comparable"
)

// Difference is one resource that does not run as it was sent.
type Difference struct {
	Type string `json:"type"`
	Name string `json:"name"`
	// What is one of the constants above.
	What string `json:"what"`
	// Details say more: the fields that differ, with what was sent and what runs.
	Details []string `json:"details,omitempty"`
}

// Compare returns the differences, in the order of types and names; none when all runs as it was sent.
func Compare(sent []Sent, running Running) []Difference {
	var out []Difference
	known := map[id]bool{}
	for _, s := range sent {
		known[id{s.Type, s.Name}] = true
		if d, ok := running.judge(s); ok {
			out = append(out, d)
		}
	}
	for key, r := range running.resources {
		if !known[key] && r.dynamic && !running.unsent(key) {
			out = append(out, Difference{Type: key.typ, Name: key.name, What: NotSent})
		}
	}
	slices.SortFunc(out, func(a, b Difference) int {
		return cmp.Or(slices.Index(types(), a.Type)-slices.Index(types(), b.Type), strings.Compare(a.Name, b.Name))
	})
	return out
}

// judge compares one resource.
func (r Running) judge(s Sent) (Difference, bool) {
	d := Difference{Type: s.Type, Name: s.Name}
	runs, ok := r.resources[id{s.Type, s.Name}]
	switch {
	case !slices.Contains(types(), s.Type):
		return d, false // Envoy does not tell of it
	case s.Refused != "":
		d.What, d.Details = Refused, []string{s.Refused}
		return d, true
	case s.Gone && ok && runs.dynamic:
		d.What, d.Details = NotSent, []string{"it was removed"}
		return d, true
	case s.Gone:
		return d, false
	case !ok && s.Type == Endpoint && r.unused(s.Name):
		return d, false
	case !ok:
		d.What = Missing
	case !runs.dynamic:
		d.What, d.Details = Overridden, []string{"the bootstrap of this Envoy has one of that name, which stands"}
	case runs.warming:
		d.What, d.Details = Warming, runs.notes
	case s.Content == nil:
		d.What, d.Details = NotComparable, []string{"the server does not know any more what it sent"}
	default:
		d.Details = r.differences(s, runs)
		d.What = Differs
		return d, len(d.Details) > 0
	}
	if ok && len(d.Details) == 0 {
		d.Details = runs.notes
	}
	return d, true
}

// differences are the fields that differ.
func (r Running) differences(s Sent, runs resource) []string {
	var sent any
	if err := json.Unmarshal(s.Content, &sent); err != nil {
		return []string{fmt.Sprintf("what was sent cannot be read: %v", err)}
	}
	now := runs.content
	if s.Type == Endpoint {
		sent, now = byAddress(sent, nil), byAddress(now, r.health[s.Name])
	}
	d := &details{}
	d.compare("", sent, now)
	return d.list()
}
