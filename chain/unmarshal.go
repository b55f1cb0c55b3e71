package chain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// UnmarshalJSON implements [json.Unmarshaler]: it adds the entries of a list, each as [UnmarshalEntry]
// reads it.
func (s *EntrySet) UnmarshalJSON(data []byte) error {
	var list []json.RawMessage
	if err := json.Unmarshal(data, &list); err != nil {
		return fmt.Errorf("chain: entries: %w", err)
	}
	for i, raw := range list {
		e, err := UnmarshalEntry(raw)
		if err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
		s.Put(e)
	}
	return nil
}

// UnmarshalEntry reads one entry in the JSON of Consul's config API, and normalizes it: Kind says what it
// is, and durations are text such as "3s" or numbers of nanoseconds. Indexes are passed over, and any other
// key that no field takes is an error. Whether the values make sense is for [Validate] to say.
func UnmarshalEntry(data []byte) (Entry, error) {
	raw, err := decodeObject(data)
	if err != nil {
		return nil, fmt.Errorf("chain: %w", err)
	}
	kind, _ := raw["Kind"].(string)
	e := New(Kind(kind))
	if e == nil {
		return nil, fmt.Errorf("chain: Kind is %q: it must be one of %q", kind, AllKinds())
	}
	// What Consul's answer has beyond the entry.
	for _, key := range []string{"Kind", "CreateIndex", "ModifyIndex", "Hash"} {
		delete(raw, key)
	}
	if _, err := inNanoseconds("", raw, reflect.TypeOf(e)); err != nil {
		return nil, fmt.Errorf("chain: %s: %w", kind, err)
	}
	plain, err := json.Marshal(raw)
	if err != nil {
		return nil, fmt.Errorf("chain: %s: %w", kind, err)
	}
	if err := json.Unmarshal(plain, e); err != nil {
		return nil, fmt.Errorf("chain: %s: %w", kind, err)
	}
	return Normalize(e), nil
}

func decodeObject(data []byte) (map[string]any, error) {
	var raw map[string]any
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(&raw); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value: give a list of entries to an EntrySet")
	}
	return raw, nil
}

// inNanoseconds returns v, which is to be decoded into the type, with durations as the numbers that
// encoding/json reads. It refuses keys that the type does not have: encoding/json would let them pass
// below types that decode themselves.
func inNanoseconds(path string, v any, t reflect.Type) (_ any, err error) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch v := v.(type) {
	case string:
		if t != reflect.TypeFor[time.Duration]() {
			return v, nil
		}
		d, err := parseDuration(v)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return int64(d), nil
	case []any:
		for i := 0; i < len(v) && err == nil && t.Kind() == reflect.Slice; i++ {
			v[i], err = inNanoseconds(fmt.Sprintf("%s[%d]", path, i), v[i], t.Elem())
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			below := strings.TrimPrefix(path+"."+key, ".")
			of := valueType(t, key)
			if of == nil {
				return nil, fmt.Errorf("%s: there is no such field", below)
			}
			if v[key], err = inNanoseconds(below, v[key], of); err != nil {
				return nil, err
			}
		}
	}
	return v, err
}

// valueType is the type of what a key holds in a value of type t, or nil when there is no such field.
func valueType(t reflect.Type, key string) reflect.Type {
	switch t.Kind() {
	case reflect.Map:
		return t.Elem()
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			if strings.EqualFold(f.Name, key) && !f.Anonymous && f.Tag.Get("json") != "-" {
				return f.Type
			}
		}
		return nil
	default: // an opaque value, or one that encoding/json refuses
		return t
	}
}
