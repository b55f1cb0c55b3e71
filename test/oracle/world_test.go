package oracle_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/entry"
)

// object is an entry, or a part of one, as it is written to Consul.
type object = map[string]any

// ref names an entry.
type ref struct {
	kind chain.Kind
	name string
}

func refOf(doc object) ref {
	kind, _ := doc["Kind"].(string)
	name, _ := doc["Name"].(string)
	return ref{chain.Kind(kind), name}
}

// key is the ref under which entries are kept, whose names differ in more than case.
func (r ref) key() ref { return ref{r.kind, strings.ToLower(r.name)} }

// change is a write, or a deletion when doc is nil.
type change struct {
	ref
	doc object
}

func write(doc object) change { return change{refOf(doc), doc} }

// question is what to ask of a chain; an empty datacenter is Consul's own.
type question struct {
	Service    string
	Datacenter string
	Overrides  chain.Overrides
}

// body is the question's body for Consul, nil when there are no overrides.
func (q question) body() any {
	if q.Overrides == (chain.Overrides{}) {
		return nil
	}
	body := object{}
	if p := q.Overrides.Protocol; p != "" {
		body["OverrideProtocol"] = p
	}
	if d := q.Overrides.ConnectTimeout; d != 0 {
		body["OverrideConnectTimeout"] = d.String()
	}
	if m := q.Overrides.MeshGateway; m != "" {
		body["OverrideMeshGateway"] = object{"Mode": m}
	}
	return body
}

// request is the question as the compiler takes it.
func (q question) request(trustDomain string) chain.Request {
	return chain.Request{
		Service: q.Service, Datacenter: q.Datacenter, Overrides: q.Overrides, TrustDomain: trustDomain,
	}
}

// world is what is written to Consul, and what that is here.
type world struct {
	docs    map[ref]object
	entries map[ref]chain.Entry
}

func newWorld() *world {
	return &world{docs: map[ref]object{}, entries: map[ref]chain.Entry{}}
}

// put notes a write that was accepted.
func (w *world) put(doc object, e chain.Entry) {
	key := refOf(doc).key()
	w.docs[key], w.entries[key] = doc, e
}

// apply notes a change that was accepted.
func (w *world) apply(c change, e chain.Entry) {
	if c.doc == nil {
		w.remove(c.ref)
		return
	}
	w.put(c.doc, e)
}

func (w *world) remove(r ref) {
	delete(w.docs, r.key())
	delete(w.entries, r.key())
}

// set is all entries, as they are.
func (w *world) set() *chain.EntrySet {
	return chain.NewEntrySet(slices.Collect(maps.Values(w.entries))...)
}

// refs lists what is there, in the order in which it can be written more often than not.
func (w *world) refs() []ref {
	order := func(r ref) string {
		rank := slices.Index([]chain.Kind{
			chain.KindProxyDefaults, chain.KindServiceDefaults, chain.KindServiceResolver,
			chain.KindServiceSplitter, chain.KindServiceRouter,
		}, r.kind)
		return fmt.Sprint(rank, r.name)
	}
	return slices.SortedFunc(maps.Keys(w.docs), func(a, b ref) int { return strings.Compare(order(a), order(b)) })
}

// all lists the documents in the order of refs.
func (w *world) all() []object {
	var docs []object
	for _, r := range w.refs() {
		docs = append(docs, w.docs[r])
	}
	return docs
}

// The grounds on which a change is refused.
type grounds string

const (
	accepted   grounds = ""
	unreadable grounds = "reading it"
	invalid    grounds = "validation"
	uncompiled grounds = "chains that do not compile"
)

// verdict is what we think of a change.
type verdict struct {
	grounds  grounds
	messages []string
	// near holds when a chain does not compile that Consul looks at: it looks only at those of services
	// whose own entries name the one that changes, and accepts what breaks the chains beyond.
	near bool
	// mixedCase holds when names are written in both cases. Consul then accepts what breaks chains that
	// spell the name of what changes in another way than it is spelled there.
	mixedCase bool
	entry     chain.Entry
}

// decode reads an entry as the product reads one that someone wrote.
func decode(doc object) (verdict, error) {
	raw, err := json.Marshal(doc)
	if err != nil {
		return verdict{}, err
	}
	f := entry.Decode("written.json", raw)
	var v verdict
	for _, p := range f.Problems {
		if p.Severity != chain.SeverityError {
			continue
		}
		if v.messages = append(v.messages, p.String()); strings.HasPrefix(p.Code, "CAT19") {
			v.grounds = unreadable
		} else if v.grounds == accepted {
			v.grounds = invalid
		}
	}
	if v.grounds == accepted {
		if len(f.Entries) != 1 {
			return v, fmt.Errorf("%d entries were decoded of %s", len(f.Entries), raw)
		}
		v.entry = f.Entries[0]
	}
	return v, nil
}

// judge says what should become of a change.
func (w *world) judge(c change) (verdict, error) {
	after := &world{docs: w.docs, entries: maps.Clone(w.entries)}
	before := w.entries[c.key()]
	var v verdict
	if c.doc == nil && before == nil {
		return v, nil // Consul looks at no chain for what changes nothing
	}
	if c.doc == nil {
		delete(after.entries, c.key())
	} else {
		var err error
		if v, err = decode(c.doc); err != nil || v.grounds != accepted {
			return v, err
		}
		if reflect.DeepEqual(before, v.entry) {
			return v, nil
		}
		after.entries[c.key()] = v.entry
	}
	set := after.set()
	for _, name := range after.services(c) {
		if _, problems := chain.Compile(chain.Request{Service: name}, set); len(problems) > 0 {
			v.grounds, v.messages = uncompiled, append(v.messages, problems[0].Message)
			v.near = v.near || w.refersTo(name, c.ref) || after.refersTo(name, c.ref)
		}
	}
	return v, nil
}

// refersTo reports whether an entry of a service names that of a change. It does so of the change's own
// service, and all do of proxy-defaults.
func (w *world) refersTo(service string, changed ref) bool {
	if changed.kind == chain.KindProxyDefaults || strings.EqualFold(service, changed.name) {
		return true
	}
	for r, e := range w.entries {
		if r.name != strings.ToLower(service) {
			continue
		}
		// Every name in an entry's JSON is a value, and no other value looks like one.
		if strings.Contains(strings.ToLower(string(compact(e))), `"service":"`+changed.key().name+`"`) {
			return true
		}
	}
	return false
}

// services lists the names of the chains that a change can touch.
func (w *world) services(c change) []string {
	names := map[string]string{}
	add := func(kind chain.Kind, name string) {
		if key := strings.ToLower(name); kind != chain.KindProxyDefaults && names[key] == "" {
			names[key] = name
		}
	}
	add(c.kind, c.name)
	for r, e := range w.entries {
		add(r.kind, e.Head().Name)
	}
	return slices.Sorted(maps.Values(names))
}

// differs says how the verdict differs from Consul's, which is a refusal or nothing.
func (v verdict) differs(refusal string) string {
	ofChain := v.grounds == accepted || v.grounds == uncompiled
	switch {
	case v.mixedCase && ofChain && (refusal == "" || isOfChain(refusal)):
		return ""
	case refusal == "" && (v.grounds == accepted || v.grounds == uncompiled && !v.near):
		return ""
	case refusal == "":
		return fmt.Sprintf("Consul accepts it; here %s refuses it: %q", v.grounds, v.messages)
	case v.grounds == accepted:
		return fmt.Sprintf("Consul refuses it: %s; here nothing is wrong", refusal)
	case isOfChain(refusal) != (v.grounds == uncompiled):
		return fmt.Sprintf("Consul refuses it: %s; here %s does: %q", refusal, v.grounds, v.messages)
	case v.grounds == uncompiled && !slices.ContainsFunc(v.messages, func(m string) bool { return strings.EqualFold(m, refusal) }):
		return fmt.Sprintf("Consul refuses it: %s; here the chains say %q", refusal, v.messages)
	}
	return ""
}

// isOfChain tells the refusals of chains, which a write shares with a question, from those of the
// entry itself.
func isOfChain(refusal string) bool {
	for _, text := range []string{
		"detected circular ", "uses inconsistent protocols", "does not permit advanced routing or splitting behavior",
		"does not have a subset named", "has an external SNI set", "sameness group missing",
		"incompatible with L7 intentions permissions", "Referenced JWT Provider does not exist",
	} {
		if strings.Contains(refusal, text) {
			return true
		}
	}
	return false
}

// seconds is short for the durations of questions.
func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
