//go:build e2e

package oracle_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// TestKeysAreConsuls writes an entry with each key of each type in each spelling, and compares whether
// it is refused for its key. Not every key has an alias in snake_case, and some are known only in
// Enterprise, for which we have words of our own.
func TestKeysAreConsuls(t *testing.T) {
	j, err := newJudge(testenv.StartConsul(t))
	if err != nil {
		t.Fatal(err)
	}
	defer j.close()
	spellings := 0
	for _, kind := range chain.AllKinds() {
		name := "web"
		if kind == chain.KindProxyDefaults {
			name = chain.GlobalName
		}
		whole := func(o object) object {
			doc := object{"Kind": string(kind), "Name": name}
			if kind == chain.KindMesh {
				delete(doc, "Name")
			}
			for key, value := range o {
				doc[key] = value
			}
			return doc
		}
		eachKey(reflect.TypeOf(chain.New(kind)).Elem(), whole, func(doc object, key string) {
			spellings++
			refusal, err := j.apply(write(doc))
			if err != nil {
				t.Fatal(err)
			}
			v, err := newWorld().judge(write(doc))
			if err != nil {
				t.Fatal(err)
			}
			theirs := strings.Contains(refusal, "invalid config key")
			ours := strings.Contains(strings.Join(v.messages, " "), "unknown key")
			if theirs && v.grounds == accepted || ours && !theirs {
				t.Errorf("the key %s in %s: Consul says %q; here %q", key, compact(doc), refusal, v.messages)
			}
			if err := j.clear(); err != nil {
				t.Fatal(err)
			}
		})
	}
	t.Logf("compared %d spellings of keys", spellings)
}

// eachKey visits an entry for each spelling of each field of a struct and of what is in it.
func eachKey(in reflect.Type, within func(object) object, visit func(doc object, key string)) {
	for _, f := range reflect.VisibleFields(in) {
		if f.Anonymous || f.Name == "Name" || f.Tag.Get("json") == "-" {
			continue
		}
		snake := strings.ToLower(words.ReplaceAllString(f.Name, "${1}_$2"))
		for _, key := range []string{f.Name, strings.ToLower(f.Name), snake} {
			visit(within(object{key: sample(f.Type)}), key)
		}
		inner, wrap := f.Type, func(o object) any { return o }
		switch inner.Kind() {
		case reflect.Slice:
			inner, wrap = inner.Elem(), func(o object) any { return []object{o} }
		case reflect.Map:
			inner, wrap = inner.Elem(), func(o object) any { return object{"v1": o} }
		default:
		}
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct {
			eachKey(inner, func(o object) object { return within(object{f.Name: wrap(o)}) }, visit)
		}
	}
}

// sample is a value that a field of the type takes.
func sample(t reflect.Type) any {
	if t == reflect.TypeFor[time.Duration]() {
		return "1s"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return sample(t.Elem())
	case reflect.String:
		return "tcp"
	case reflect.Bool:
		return true
	case reflect.Slice:
		return []any{}
	case reflect.Map, reflect.Struct:
		return object{}
	default:
		return 1
	}
}
