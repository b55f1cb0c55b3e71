package oracle_test

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/catenary-mesh/catenary/chain"
)

// shrinker makes a trial smaller while it still fails.
type shrinker struct {
	fails func(trial) bool
	// tries bounds how often fails is asked.
	tries int
}

// shrink drops entries, then parts of entries, then what is asked beyond need.
func (s *shrinker) shrink(t trial) trial {
	t.docs = s.drop(t)
	for i := range t.docs {
		t.docs[i] = s.trim(t.docs[i], func(doc object) trial { return t.with(i, doc) })
	}
	if t.change != nil && t.change.doc != nil {
		doc := s.trim(t.change.doc, func(doc object) trial {
			less := t
			less.change = &change{t.change.ref, doc}
			return less
		})
		t.change = &change{t.change.ref, doc}
	}
	if t.question != nil {
		t.question = s.simplify(t)
	}
	t.docs = s.drop(t)
	return t
}

func (s *shrinker) still(t trial) bool {
	s.tries--
	return s.tries >= 0 && s.fails(t)
}

// with is the trial with another entry at i.
func (t trial) with(i int, doc object) trial {
	t.docs = slices.Clone(t.docs)
	t.docs[i] = doc
	return t
}

// drop leaves out entries, first many at once.
func (s *shrinker) drop(t trial) []object {
	for size := (len(t.docs) + 1) / 2; size > 0; size /= 2 {
		for i := 0; i < len(t.docs); {
			less := t
			less.docs = slices.Concat(t.docs[:i], t.docs[min(len(t.docs), i+size):])
			if s.still(less) {
				t = less
			} else {
				i += size
			}
		}
	}
	return t.docs
}

// trim leaves out parts of an entry.
func (s *shrinker) trim(doc object, within func(object) trial) object {
	for i := 0; ; {
		smaller := without(doc, i)
		if smaller == nil {
			return doc
		}
		if s.still(within(smaller)) {
			doc = smaller
		} else {
			i++
		}
	}
}

// simplify leaves out parts of the question.
func (s *shrinker) simplify(t trial) *question {
	best := *t.question
	for _, less := range []func(*question){
		func(q *question) { q.Overrides = chain.Overrides{} },
		func(q *question) { q.Overrides.Protocol = "" },
		func(q *question) { q.Overrides.ConnectTimeout = 0 },
		func(q *question) { q.Overrides.MeshGateway = "" },
		func(q *question) { q.Datacenter = "" },
	} {
		q := best
		if less(&q); q != best && s.still(trial{docs: t.docs, question: &q}) {
			best = q
		}
	}
	return &best
}

// without returns a copy of an entry that lacks its i-th part, counted from the outermost fields in,
// or nil when there are not so many parts. Kind and name are no parts.
func without(doc object, i int) object {
	raw, err := json.Marshal(doc)
	if err != nil {
		panic(err) // it was made of what JSON can say
	}
	var c object
	if err := json.Unmarshal(raw, &c); err != nil {
		panic(err)
	}
	head := object{"Kind": c["Kind"], "Name": c["Name"]}
	delete(c, "Kind")
	delete(c, "Name")
	if pruned, _, done := prune(c, i); done {
		maps.Copy(head, pruned.(object))
		return head
	}
	return nil
}

// prune removes the i-th part of a value, and returns how many parts are left to count when there are
// fewer.
func prune(value any, i int) (pruned any, left int, done bool) {
	switch v := value.(type) {
	case object:
		keys := slices.Sorted(maps.Keys(v))
		if i < len(keys) {
			delete(v, keys[i])
			return v, 0, true
		}
		i -= len(keys)
		for _, key := range keys {
			if v[key], i, done = prune(v[key], i); done {
				return v, 0, true
			}
		}
	case []any:
		if i < len(v) {
			return slices.Delete(v, i, i+1), 0, true
		}
		i -= len(v)
		for at := range v {
			if v[at], i, done = prune(v[at], i); done {
				return v, 0, true
			}
		}
	}
	return value, i, false
}
