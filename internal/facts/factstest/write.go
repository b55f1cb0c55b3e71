package factstest

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/catenary-mesh/catenary/chain"
)

// tidy is a harness that remembers what was written, to remove what is left of it in the end.
type tidy struct {
	Harness
	entries   map[entryKey]bool
	instances map[string]bool
}

type entryKey struct {
	Kind chain.Kind
	Name string
}

// tidied returns the harness with its leavings removed when the test ends, after the source.
func tidied(t *testing.T, h Harness) Harness {
	t.Helper()
	w := &tidy{Harness: h, entries: map[entryKey]bool{}, instances: map[string]bool{}}
	t.Cleanup(func() {
		for id := range w.instances {
			h.Deregister(t, id)
		}
		for key := range w.entries {
			h.DeleteEntry(t, key.Kind, key.Name)
		}
	})
	return w
}

// PutEntry implements [Harness].
func (w *tidy) PutEntry(t testing.TB, text string) {
	t.Helper()
	var key entryKey
	if err := json.Unmarshal([]byte(text), &key); err != nil {
		t.Fatal(err)
	}
	if key.Kind == chain.KindMesh {
		key.Name = chain.MeshName
	}
	w.entries[key] = true
	w.Harness.PutEntry(t, text)
}

// DeleteEntry implements [Harness].
func (w *tidy) DeleteEntry(t testing.TB, kind chain.Kind, name string) {
	t.Helper()
	delete(w.entries, entryKey{kind, name})
	w.Harness.DeleteEntry(t, kind, name)
}

// Register implements [Harness].
func (w *tidy) Register(t testing.TB, s ServiceSpec) {
	t.Helper()
	w.instances[s.ID] = true
	w.Harness.Register(t, s.WithDefaults())
}

// Deregister implements [Harness].
func (w *tidy) Deregister(t testing.TB, id string) {
	t.Helper()
	delete(w.instances, id)
	w.Harness.Deregister(t, id)
}

func defaults(name, protocol string) string {
	return fmt.Sprintf(`{"Kind": "service-defaults", "Name": %q, "Protocol": %q}`, name, protocol)
}

func hasProtocol(want string) func(chain.Entry) bool {
	return func(e chain.Entry) bool {
		d, ok := e.(*chain.ServiceDefaults)
		return ok && d.Protocol == want
	}
}
