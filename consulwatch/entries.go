package consulwatch

import (
	"encoding/json"
	"fmt"

	"github.com/catenary-mesh/catenary/chain"
)

// undecoded is a config entry that Consul has and that cannot be decoded here.
type undecoded struct{ name, problem string }

// decodeEntries decodes the list of config entries of a kind. The error means that it is no such
// list at all.
func decodeEntries(body []byte) ([]chain.Entry, []undecoded, error) {
	var raws []json.RawMessage
	if err := json.Unmarshal(body, &raws); err != nil {
		return nil, nil, err
	}
	entries := make([]chain.Entry, 0, len(raws))
	var broken []undecoded
	for i, raw := range raws {
		var head struct{ Kind, Name string }
		if err := json.Unmarshal(raw, &head); err != nil || head.Kind == "" || head.Name == "" {
			return nil, nil, fmt.Errorf("entry %d has no kind or no name", i)
		}
		e, problems := decodeEntry(raw)
		if e == nil {
			broken = append(broken, undecoded{name: head.Name, problem: describe(head.Kind+"/"+head.Name, problems)})
			continue
		}
		entries = append(entries, e)
	}
	return entries, broken, nil
}

func describe(entry string, problems []chain.Problem) string {
	text := entry + " cannot be decoded"
	if len(problems) > 0 {
		text += ": " + problems[0].Message
	}
	return text
}

// decodeEntry decodes one config entry.
func decodeEntry(raw []byte) (chain.Entry, []chain.Problem) {
	var head struct {
		Kind        chain.Kind
		ModifyIndex uint64
	}
	err := json.Unmarshal(raw, &head)
	e := chain.New(head.Kind)
	if err != nil || e == nil {
		return nil, nil
	}
	if err := json.Unmarshal(raw, e); err != nil {
		return nil, []chain.Problem{{Message: err.Error()}}
	}
	e.Head().ModifyIndex, e.Head().Origin = head.ModifyIndex, "consul"
	return e, nil
}
