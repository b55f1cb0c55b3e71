package chain_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/catenary-mesh/catenary/chain"
)

// durationKeys are the keys whose values may be text such as "3s".
var durationKeys = []string{"ConnectTimeout", "RequestTimeout", "IdleTimeout", "TTL", "Interval", "BaseEjectionTime"}

// decodeEntry reads one entry in the JSON of Consul's config API, as strictly as a test needs it.
func decodeEntry(data []byte) (chain.Entry, error) {
	var raw map[string]any
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, err
	}
	kind, _ := raw["Kind"].(string)
	e := chain.New(chain.Kind(kind))
	if e == nil {
		return nil, fmt.Errorf("kind %q is none of a chain's", kind)
	}
	delete(raw, "Kind")
	config := raw["Config"]
	delete(raw, "Config")
	if err := inNanoseconds(raw); err != nil {
		return nil, err
	}
	if config != nil {
		raw["Config"] = config
	}
	plain, err := json.Marshal(raw)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(plain))
	dec.DisallowUnknownFields()
	if err := dec.Decode(e); err != nil {
		return nil, err
	}
	return chain.Normalize(e), nil
}

func inNanoseconds(v any) error {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			if err := inNanoseconds(item); err != nil {
				return err
			}
		}
	case map[string]any:
		for key, item := range v {
			text, ok := item.(string)
			if !ok || !slices.Contains(durationKeys, key) {
				if err := inNanoseconds(item); err != nil {
					return err
				}
				continue
			}
			d, err := time.ParseDuration(text)
			if err != nil {
				return err
			}
			v[key] = int64(d)
		}
	}
	return nil
}

// decodeEntries reads a JSON list of entries.
func decodeEntries(data []byte) (*chain.EntrySet, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, err
	}
	set := &chain.EntrySet{}
	for i, raw := range list {
		e, err := decodeEntry(raw)
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", i, err)
		}
		set.Put(e)
	}
	return set, nil
}
