package consulwatch

import (
	"encoding/json"
	"fmt"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/entry"
)

// entryList is the config entries of a kind.
type entryList struct {
	entries []chain.Entry
	// broken are those that Consul has and that cannot be decoded here.
	broken []brokenEntry
	// warnings tell of what was passed over, such as fields of a newer Consul.
	warnings []string
	// problems are both, one by one.
	problems []chain.Problem
}

type brokenEntry struct{ name, problem string }

// origin is where the problems of config entries are: they have no file.
const origin = "consul"

// decodeEntries decodes the list of config entries of a kind. The error means that it is no such
// list at all.
func decodeEntries(body []byte) (entryList, error) {
	var raws []json.RawMessage
	if err := json.Unmarshal(body, &raws); err != nil {
		return entryList{}, err
	}
	list := entryList{entries: make([]chain.Entry, 0, len(raws))}
	for i, raw := range raws {
		var head struct{ Kind, Name string }
		err := json.Unmarshal(raw, &head)
		if head.Kind == string(chain.KindMesh) {
			head.Name = chain.MeshName // Consul has no name for the only one
		}
		if err != nil || head.Kind == "" || head.Name == "" {
			return entryList{}, fmt.Errorf("entry %d has no kind or no name", i)
		}
		e, problems := entry.DecodeJSON(raw)
		wrong := e == nil
		for _, p := range problems {
			wrong = wrong || p.IsError()
			list.warnings = append(list.warnings, head.Kind+"/"+head.Name+": "+text(p))
			p.Entry, p.Origin = head.Kind+"/"+head.Name, origin
			list.problems = append(list.problems, p)
		}
		if wrong {
			list.broken = append(list.broken, brokenEntry{head.Name, describe(head.Kind+"/"+head.Name, problems)})
		} else {
			list.entries = append(list.entries, e)
		}
	}
	return list, nil
}

// describe says why an entry cannot be decoded.
func describe(name string, problems []chain.Problem) string {
	for _, p := range problems {
		if p.IsError() {
			return name + " cannot be decoded: " + text(p)
		}
	}
	return name + " cannot be decoded"
}

func text(p chain.Problem) string {
	if p.Field == "" {
		return p.Message
	}
	return p.Field + ": " + p.Message
}
